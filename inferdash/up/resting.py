"""A web server that wakes once a second while nobody asks it anything, for its Date header."""

import asyncio
import contextlib
from types import FrameType

import uvicorn

EVERY = 1.0  # seconds; uvicorn itself wakes ten times as often to see whether it is to end
# on_tick() makes a new header at every tenth count that it is given.
_WITH_HEADER = 0


class RestingServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._is_to_end = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(_WITH_HEADER):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_to_end.wait(), EVERY)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            # In the middle of whatever runs: its selector has to be woken as from another thread.
            self._loop.call_soon_threadsafe(self._is_to_end.set)
