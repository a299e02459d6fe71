"""What further boxes cost: bytes between an idle one and the hub, and the hub's processor with eight.

Each is whole, in a network namespace; they share a Docker Engine, in which they run nothing.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil

from tests import docker_engine
from tests.bench.processes import tree
from tests.bench.result import BenchResult, progress
from tests.boxes.lan import BOXES, BoxLan, lan_box, lan_hub

NAME = "boxes"
SETTLE = 30.0  # seconds
SECONDS = 60.0
BYTES_LIMIT = 5.0  # kB a second, both ways
CPU_LIMIT = 15.0


def bench() -> Iterator[BenchResult]:
    with docker_engine.lease() as host, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ifd-")))
        lan = stack.enter_context(lan_hub(host, folder))
        time.sleep(SETTLE)
        alone = _measure(lan)
        for number in range(BOXES):
            name = f"box-{number + 1}"
            stack.enter_context(lan_box(lan, name, host, folder, has_engine=False))
        time.sleep(SETTLE)
        cables = [each.network.cable for each in lan.boxes]
        before, began = sum(each.carried for each in cables), time.monotonic()
        together = _measure(lan)
        carried = sum(each.carried for each in cables) - before
        rate = carried / len(cables) / (time.monotonic() - began)
    yield BenchResult(
        name=f"{NAME}: between an idle box and its hub, both ways",
        value=rate / 1000,
        unit="kB/s",
        limit=BYTES_LIMIT,
    )
    yield BenchResult(
        name=f"{NAME}: the hub's processor for {BOXES} idle boxes",
        value=together - alone,
        unit="% of one core",
        limit=CPU_LIMIT,
    )


def _measure(lan: BoxLan) -> float:
    """Percent of a core that all programs of the hub use together."""
    before, began = _read(lan), time.monotonic()
    time.sleep(SECONDS)
    after, took = _read(lan), time.monotonic() - began
    used: dict[str, float] = {}
    for each in after.keys() & before.keys():
        seconds = after[each][1] - before[each][1]
        used[after[each][0]] = used.get(after[each][0], 0) + 100 * seconds / took
    for name, percent in sorted(used.items(), key=lambda item: -item[1]):
        if percent >= 0.1:
            progress(f"{percent:5.1f} %  {name}")
    return sum(used.values())


def _read(lan: BoxLan) -> dict[psutil.Process, tuple[str, float]]:
    """What each is and has used, with what has ended below it: PostgreSQL's workers come and go."""
    found = {}
    for each in tree(lan.hub.up.process.pid):
        try:
            words, times = " ".join(each.cmdline()[:5]), each.cpu_times()
        except psutil.Error:
            continue
        found[each] = (_name(words), float(sum(times[:4])))
    return found


def _name(words: str) -> str:
    known = (
        "inferdash.up.web",
        "celery",
        "watch",
        "keep_links",
        "redis-server",
        "postgres",
        "sshd",
    )
    return next((each for each in known if each in words), words[:60])
