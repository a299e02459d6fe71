"""A thread apart for reading what people send, so that it holds up no other request."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

# One after the other: in the shared thread, one person's text would hold up all pages.
_reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reading")


async def run_apart[Found](work: Callable[..., Found], *args: object) -> Found:
    """What `work` returns, or raises."""
    return await asyncio.get_running_loop().run_in_executor(_reading, work, *args)
