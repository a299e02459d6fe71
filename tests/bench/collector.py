"""What the collector takes while it reads eight stand-in cards once a second."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil

from tests.bench.processes import cpu_percent
from tests.bench.result import BenchResult
from tests.nvml import StandIn, profiles
from tests.terminal import ROOT

CARDS = 8
SAMPLES = 40
LIMIT = 2.0
HELD = 60 * 2**30


def bench() -> Iterator[BenchResult]:
    with ExitStack() as stack:
        standin = StandIn(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        machine = profiles.rtx_pro_6000(CARDS)
        for card in machine.cards:
            # Real processes, because the collector looks each of them up in /proc.
            holder = stack.enter_context(subprocess.Popen(["sleep", "infinity"]))
            stack.callback(holder.terminate)
            card.run(holder.pid, HELD)
        standin.show(machine)
        collector = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "servers.host.collector.child", "--interval", "1"],
                cwd=ROOT,
                env=standin.env,
                stdout=subprocess.PIPE,
            )
        )
        stack.callback(collector.terminate)
        yield _measure(collector)


def _measure(collector: "subprocess.Popen[bytes]") -> BenchResult:
    assert collector.stdout is not None
    output = collector.stdout
    # The first ones pay for the start.
    first = [output.readline() for _sample in range(3)][-1]
    assert first.count(b"RTX PRO 6000") == CARDS, first
    process = psutil.Process(collector.pid)
    used = cpu_percent([process], lambda: [output.readline() for _sample in range(SAMPLES)])
    return BenchResult(
        name=f"collector: {CARDS} cards at 1 Hz, CPU",
        value=used[process],
        unit="% of one core",
        limit=LIMIT,
    )
