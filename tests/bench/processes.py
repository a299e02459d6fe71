"""CPU and memory of processes over a while."""

import time
from collections.abc import Callable

import psutil


def tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def cpu_percent(
    processes: list[psutil.Process], wait: Callable[[], object]
) -> dict[psutil.Process, float]:
    """Percent of one core that each has used while waiting."""
    began, before = time.monotonic(), [_seconds(each) for each in processes]
    wait()
    took = time.monotonic() - began
    # One that has ended meanwhile raises: its share would be missing.
    return {
        each: (_seconds(each) - used) / took * 100
        for each, used in zip(processes, before, strict=True)
    }


def pss(process: psutil.Process) -> float:
    """MB that would be free without it; what it shares with others is counted once."""
    return float(process.memory_full_info().pss) / 1e6


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
