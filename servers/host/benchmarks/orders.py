"""Orders to a process that sends requests: lines of JSON on its standard input, answered by lines."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from servers.host.benchmarks.requests import BenchmarkTarget
from servers.host.http.wire import Way

TIME_IS_UP = 3  # the status with which the process ends then


@dataclass(frozen=True, kw_only=True)
class LoadLimits:
    """Of all that one process does: `seconds` after its begin it ends, with what is on its way."""

    seconds: float
    requests: int  # with warm-ups


async def begin() -> tuple[BenchmarkTarget, LoadLimits]:
    """The first line. The process ends when its time is up, whatever it does then."""
    said = json.loads(await asyncio.to_thread(sys.stdin.readline))
    limits = LoadLimits(**said["limits"])
    ends = threading.Timer(limits.seconds, lambda: os._exit(TIME_IS_UP))
    ends.daemon = True
    ends.start()
    via = said["target"].pop("via")
    way = Way(**via) if via is not None else None
    return BenchmarkTarget(**said["target"], via=way), limits


def follow(take: Callable[[dict[str, Any]], None]) -> None:
    """Have the running loop call `take` with each further line. The process ends with its input."""
    arguments = asyncio.get_running_loop(), take
    threading.Thread(target=_read, args=arguments, daemon=True).start()


def _read(loop: asyncio.AbstractEventLoop, take: Callable[[dict[str, Any]], None]) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(take, json.loads(line))
    # Who wanted the requests is gone: nothing may go on asking the engine.
    os._exit(0)


def write(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
