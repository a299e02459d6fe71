"""The web server while nobody asks it anything, and when it is told to end."""

import asyncio
import os
import signal
import threading
import time
from itertools import pairwise

import pytest
import uvicorn

from inferdash.up import connections, ports
from inferdash.up.connections import WAKES_EVERY, RestingServer

FAILED_AFTER = 60.0  # seconds


async def nothing(scope: object, receive: object, send: object) -> None:
    """Never asked."""


class Counting(RestingServer):
    def __init__(self) -> None:
        super().__init__(uvicorn.Config(nothing, lifespan="off", log_config=None))
        self.ticked_at: list[float] = []
        self.has_ticked = asyncio.Event()

    async def on_tick(self, counter: int) -> bool:
        self.ticked_at.append(time.monotonic())
        self.has_ticked.set()
        is_over = await super().on_tick(counter)
        return is_over or len(self.ticked_at) == 3


def test_it_wakes_once_a_second_with_a_new_date() -> None:
    server = Counting()

    asyncio.run(server._serve(ports.listen("127.0.0.1", 0)))

    assert [name for name, _value in server.server_state.default_headers] == [b"date", b"server"]
    gaps = [after - before for before, after in pairwise(server.ticked_at)]
    assert all(gap >= WAKES_EVERY * 0.9 for gap in gaps), gaps


def test_a_signal_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "WAKES_EVERY", 10 * FAILED_AFTER)
    server = Counting()

    async def serves() -> None:
        async with asyncio.timeout(FAILED_AFTER):
            serving = asyncio.create_task(server._serve(ports.listen("127.0.0.1", 0)))
            await server.has_ticked.wait()
            # From beside it, as its loop sleeps in the kernel by then.
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGTERM]).start()
            await serving

    before = signal.signal(signal.SIGTERM, server.handle_exit)
    try:
        asyncio.run(serves())
    finally:
        signal.signal(signal.SIGTERM, before)

    assert server.should_exit
    assert len(server.ticked_at) == 2
