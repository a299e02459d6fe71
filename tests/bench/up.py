"""How long `make up` takes where everything is installed, and Ctrl-C."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.result import BenchResult, progress
from tests.ports import free_port
from tests.terminal import TerminalProgram

ROUNDS = 3
UP_LIMIT, CTRL_C_LIMIT = 5.0, 10.0


def bench() -> Iterator[BenchResult]:
    with tempfile.TemporaryDirectory(prefix="inferdash-up-") as folder:
        environment = {
            "INFERDASH_DATA": str(Path(folder) / "var"),
            "PORT": str(free_port()),
            "HOST": "127.0.0.1",
            "REDIS_URL": "",
            "DATABASE_URL": "",
            "NO_COLOR": "1",
        }
        _first, *later = [_up_and_down(environment) for _round in range(1 + ROUNDS)]
    yield BenchResult(
        name=f"make up where all is installed, until it answers (median of {ROUNDS})",
        value=statistics.median(up for up, _down in later),
        unit="s",
        limit=UP_LIMIT,
    )
    yield BenchResult(
        name=f"Ctrl-C, until everything has ended (worst of {ROUNDS})",
        value=max(down for _up, down in later),
        unit="s",
        limit=CTRL_C_LIMIT,
    )


def _up_and_down(environment: dict[str, str]) -> tuple[float, float]:
    began = time.monotonic()
    started = TerminalProgram(["make", "up"], environment)
    started.waits_for("ready at")
    up = time.monotonic() - began
    began = time.monotonic()
    started.press_ctrl_c()
    started.ends()
    down = time.monotonic() - began
    progress(f"up in {up:.2f} s, down in {down:.2f} s")
    return up, down
