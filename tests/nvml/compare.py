"""A comparison of the collector with nvidia-smi on a real GPU, phase by phase: make check-gpu.

Wants a box with an NVIDIA driver, nvidia-smi and 24 GiB free on GPU 0. Changes no setting of a card.
Writes a table of what the two said, and the samples of each phase into the folder that is named.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MIB = 2**20
Sample = dict[str, Any]


def _mib(value: int | None) -> float | None:
    return None if value is None else value / MIB


def _bus(pci: str) -> str:
    return pci.lower()[-10:].split(".")[0]


# Our field, nvidia-smi's name for it, how ours is written there, by how much the two may differ:
# they are read up to a second apart.
FIELDS: list[tuple[str, str, Callable[[Any], Any], float]] = [
    ("uuid", "uuid", str, 0),
    ("name", "name", str, 0),
    ("compute_capability", "compute_cap", str, 0),
    ("total", "memory.total", _mib, 1),
    ("used", "memory.used", _mib, 1),
    ("free", "memory.free", _mib, 1),
    ("reserved", "memory.reserved", _mib, 1),
    ("util", "utilization.gpu", float, 5),
    ("mem_util", "utilization.memory", float, 10),
    ("temperature_c", "temperature.gpu", float, 2),
    ("power_w", "power.draw", float, 40),
    ("power_limit_w", "enforced.power.limit", float, 0.1),
    ("sm_mhz", "clocks.sm", float, 60),
    ("sm_max_mhz", "clocks.max.sm", float, 0),
    ("mem_mhz", "clocks.mem", float, 0),
    ("mem_max_mhz", "clocks.max.mem", float, 0),
    ("fan", "fan.speed", float, 3),
    ("pcie_gen", "pcie.link.gen.current", float, 0),
    ("pcie_gen_max", "pcie.link.gen.max", float, 0),
    ("pcie_width", "pcie.link.width.current", float, 0),
    ("pcie_width_max", "pcie.link.width.max", float, 0),
    ("pstate", "pstate", "P{}".format, 0),
    ("persistence", "persistence_mode", lambda on: "Enabled" if on else "Disabled", 0),
    ("ecc.corrected", "ecc.errors.corrected.volatile.total", float, 0),
    ("ecc.uncorrected", "ecc.errors.uncorrected.volatile.total", float, 0),
    ("ecc.corrected_ever", "ecc.errors.corrected.aggregate.total", float, 0),
    ("ecc.uncorrected_ever", "ecc.errors.uncorrected.aggregate.total", float, 0),
]


class WatchedCollector:
    """The program that the watcher runs, and the samples that it has printed."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "servers.host.collector.child", "--while-stdin"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._heard = threading.Condition()
        self._samples: list[Sample] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self._program.stdout or ():
            with self._heard:
                self._samples.append(json.loads(line))
                self._heard.notify_all()

    def wait_for(self, count: int) -> list[Sample]:
        """So many samples that begin after this call."""
        since = time.time()
        with self._heard:
            if not self._heard.wait_for(
                lambda: len(self._after(since)) >= count, timeout=count + 30
            ):
                raise SystemExit("The collector prints no sample.")
            return self._after(since)[:count]

    def _after(self, since: float) -> list[Sample]:
        return [each for each in self._samples if each["t"] > since]

    def close(self) -> None:
        assert self._program.stdin
        self._program.stdin.close()
        self._program.wait()


def ask_smi(*query: str) -> list[list[str]]:
    said = subprocess.run(
        ["nvidia-smi", *query, "--format=csv,noheader,nounits"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [[cell.strip() for cell in line.split(", ")] for line in said.splitlines()]


def read_smi() -> list[dict[str, str]]:
    names = [name for _, name, _, _ in FIELDS]
    return [dict(zip(names, row, strict=True)) for row in ask_smi(f"--query-gpu={','.join(names)}")]


def read_processes() -> dict[tuple[str, int], float]:
    rows = ask_smi("--query-compute-apps=gpu_uuid,pid,used_memory")
    return {(uuid, int(pid)): float(used) for uuid, pid, used in rows if used.isdigit()}


def compare(phase: str, sample: Sample, smi: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    for card, told in zip(sample["gpus"], smi, strict=True):
        for field, name, write, tolerance in FIELDS:
            ours: Any = card
            for part in field.split("."):
                ours = None if ours is None else ours[part]
            theirs = told[name]
            is_absent = theirs.startswith("[") or theirs == "N/A"
            written = None if ours is None else write(ours)
            if is_absent or written is None:
                agrees = is_absent and written is None
            elif isinstance(written, float):
                agrees = abs(written - float(theirs)) <= tolerance
            else:
                agrees = written == theirs
            yield {
                "phase": phase,
                "card": card["index"],
                "field": field,
                "ours": written,
                "nvidia-smi": theirs,
                "agrees": agrees,
            }


def compare_processes(phase: str, sample: Sample) -> Iterator[dict[str, Any]]:
    ours = {
        (card["uuid"], each["pid"]): _mib(each["used"])
        for card in sample["gpus"]
        for each in card["processes"] or []
    }
    theirs = read_processes()
    for key in sorted(ours.keys() | theirs.keys()):
        mine, told = ours.get(key), theirs.get(key)
        yield {
            "phase": phase,
            "card": key[0][:12],
            "field": f"memory of process {key[1]}",
            "ours": mine,
            "nvidia-smi": told,
            "agrees": mine is not None and told is not None and abs(mine - told) <= 1,
        }


@contextmanager
def run_load(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    load = subprocess.Popen(
        [sys.executable, "-m", "tests.nvml.load", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert load.stdout
    assert load.stderr
    if load.stdout.readline() != "ready\n":
        raise SystemExit(f"The load did not start: {load.stderr.read()}")
    try:
        yield load
    finally:
        load.kill()
        load.communicate()


class GpuComparison:
    def __init__(self, folder: Path, collector: WatchedCollector) -> None:
        self.folder, self.collector = folder, collector
        self.rows: list[dict[str, Any]] = []

    def look(self, phase: str) -> Sample:
        before = self.collector.wait_for(2)[-1]
        smi = read_smi()
        self.rows += compare(phase, before, smi)
        self.rows += compare_processes(phase, before)
        samples = [before, *self.collector.wait_for(3)]
        path = self.folder / f"{phase}.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in samples))
        return samples[-1]

    def print(self) -> int:
        for row in self.rows:
            mark = "same" if row["agrees"] else "DIFFERS"
            sys.stdout.write(
                f"{row['phase']:10} {row['field']:24} {row['ours']!s:>38} "
                f"{row['nvidia-smi']!s:>38} {mark}\n"
            )
        wrong = sum(not row["agrees"] for row in self.rows)
        sys.stdout.write(f"{len(self.rows)} figures, {wrong} differ\n")
        (self.folder / "comparison.json").write_text(json.dumps(self.rows, indent=1))
        return wrong


def measure_return(collector: WatchedCollector, size: int) -> float:
    """Seconds from the end of a process until a sample shows its memory free."""
    with run_load(str(size)) as load:
        held = collector.wait_for(2)[-1]["gpus"][0]["used"]
        load.kill()
        load.wait()
        ended = time.time()
    while True:
        sample = collector.wait_for(1)[0]
        if sample["gpus"][0]["used"] < held - size * 2**30 * 0.9:
            return float(sample["t"]) - ended


def measure_cost() -> dict[str, float]:
    """Of one sample of the whole collector, made in this process."""
    from servers.host.collector.child import Sampler
    from servers.host.kernel.proc import Kernel

    sampler = Sampler(Kernel(root=Path("/")))
    sampler.sample()
    took: list[float] = []
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(100):
        start = time.perf_counter()
        sampler.sample()
        took.append((time.perf_counter() - start) * 1000)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "p50_ms": statistics.median(took),
        "p95_ms": statistics.quantiles(took, n=20)[-1],
        "cpu_ms": spent * 10,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fault", action="store_true", help="cause an XID 31 in a process of ours")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    collector = WatchedCollector()
    report = GpuComparison(arguments.folder, collector)
    report.look("idle")
    with run_load("8"):
        report.look("one")
        with run_load("12", "--busy"):
            collector.wait_for(3)  # utilisation is an average of the last second
            report.look("busy")
    report.look("after")
    facts: dict[str, Any] = {"return_s": measure_return(collector, 16)}
    if arguments.fault:
        with run_load("1", "--fault") as load:
            load.wait()
            facts["load_said"] = load.stderr.read() if load.stderr else ""
        sample = report.look("fault")
        facts["happened"], facts["unseen"] = sample["happened"], sample["unseen"]
    collector.close()
    facts["cost"] = measure_cost()
    facts["uname"] = " ".join(os.uname())
    (arguments.folder / "facts.json").write_text(json.dumps(facts, indent=1))
    wrong = report.print()
    sys.stdout.write(json.dumps(facts, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
