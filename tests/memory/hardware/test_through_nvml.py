"""Every rule from what the driver and the kernel say: a real collector on the stand-in, judged.

What a rule waits for is not waited for here: the collector's sample is told again, later each time.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servers.host.kernel import resources
from servers.judge.memory.hardware.finding import RULES, HardwareFinding
from servers.judge.memory.hardware.judge import HardwareJudge
from tests import nvml, proc
from tests.memory.hardware.machines import record, watched, xid_line
from tests.memory.test_gpus import sample
from tests.nvml import SimulatedMachine, profiles

GIB = 2**30
WHILE = 400  # seconds; the slowest rule waits for five minutes

type Change = Callable[[SimulatedMachine, Path], None]


def judged(*samples: dict[str, Any]) -> list[HardwareFinding]:
    """The last of the samples, after all of them have lasted."""
    judge, t = HardwareJudge(), samples[0]["t"]
    found: list[HardwareFinding] = []
    for each in samples:
        for _second in range(WHILE):
            t += 1
            found = judge.step(each | {"t": t})
    return found


def numbers(**values: int) -> Change:
    def change(machine: SimulatedMachine, _root: Path) -> None:
        machine.cards[0].numbers |= values

    return change


def without(*prefixes: str, **values: int) -> Change:
    def change(machine: SimulatedMachine, _root: Path) -> None:
        kept = machine.cards[0].numbers
        machine.cards[0].numbers = {
            name: value for name, value in kept.items() if not name.startswith(prefixes)
        } | values

    return change


def answer(code: int) -> Change:
    def change(machine: SimulatedMachine, _root: Path) -> None:
        machine.cards[0].errors["nvmlDeviceGetPowerUsage"] = code

    return change


def start(code: int) -> Change:
    def change(machine: SimulatedMachine, _root: Path) -> None:
        machine.errors["nvmlInitWithFlags"] = code

    return change


def kernel(text: str) -> Change:
    def change(_machine: SimulatedMachine, root: Path) -> None:
        proc.write(root, "dev/kmsg", record(text))

    return change


def file(place: str, text: str) -> Change:
    def change(_machine: SimulatedMachine, root: Path) -> None:
        proc.write(root, place, text)

    return change


PRESSURE = (
    "some avg10=55.00 avg60=40.00 avg300=9.00 total=1\nfull avg10=30.00 avg60=9 avg300=1 total=1\n"
)
BUSY = {"util": 97, "mem_util": 60, "power": 560_000, "sm_clock": 1980}
H200, GB10 = profiles.h200, profiles.gb10

CASES: dict[str, tuple[Callable[[], SimulatedMachine], Change, str, str]] = {
    "gpu_lost": (H200, answer(nvml.GPU_IS_LOST), "critical", "GPU 0 no longer answers"),
    "gpu_reset": (H200, answer(nvml.RESET_REQUIRED), "critical", "GPU 0 needs a reset"),
    "gpu_answer": (H200, answer(nvml.UNKNOWN), "warning", "GPU 0 gives an unexpected answer"),
    "driver": (H200, start(nvml.LIB_RM_VERSION_MISMATCH), "critical", "different versions"),
    "driver_memory": (
        GB10, kernel("NVRM: Out of memory [NV_ERR_NO_MEMORY] (0x51) returned from "
                     "_memdescAllocInternal"), "critical", "got no memory",
    ),
    "ecc_uncorrected": (H200, numbers(ecc_uncorrected=2), "warning", "lost data in its memory"),
    "row_remapping": (H200, numbers(rows_pending=1), "warning", "waits for a reset"),
    "retired_pages": (
        H200, without("rows_", retired_single=2, retired_double=1, retired_pending=1),
        "warning", "leave out a bad page",
    ),
    "thermal": (H200, numbers(**BUSY, throttle=0x48), "critical", "is too hot"),
    "power_brake": (H200, numbers(**BUSY, throttle=0x88), "critical", "by its power supply"),
    "low_power": (
        GB10, numbers(util=96, sm_clock=799, power=19_500, throttle=0),
        "warning", "stuck at low power",
    ),
    "pcie_link": (H200, numbers(**BUSY, throttle=0, pcie_width=4), "warning", "slow PCIe link"),
    "persistence": (H200, numbers(persistence=0), "info", "persistence mode off"),
    "memory_pressure": (H200, file("proc/pressure/memory", PRESSURE), "critical", "Memory pressure"),
}  # fmt: skip


def told(folder: Path, machine: SimulatedMachine, change: Change) -> dict[str, Any]:
    root = proc.root(folder / "root")
    change(machine, root)
    return sample(folder, machine, root)


@pytest.mark.parametrize("rule", CASES)
def test_a_fault_is_told_and_nothing_else(tmp_path: Path, rule: str) -> None:
    make, change, severity, words = CASES[rule]
    found = judged(told(tmp_path, make(), change))

    assert [(each.rule, each.severity) for each in found] == [(rule, severity)]
    assert words in found[0].title
    assert found[0].because
    assert found[0].advice


@pytest.mark.parametrize("make", [H200, GB10, profiles.rtx_pro_6000, profiles.gb300_station])
def test_idle_machines_have_nothing_wrong(
    tmp_path: Path, make: Callable[[], SimulatedMachine]
) -> None:
    assert judged(told(tmp_path, make(), numbers())) == []


@pytest.mark.parametrize(
    ("rule", "before", "after", "severity"),
    [
        ("ecc_corrected", {"ecc_corrected": 10}, {"ecc_corrected": 700}, "info"),
        ("pcie_replays", {"pcie_replays": 10}, {"pcie_replays": 900}, "warning"),
    ],
)
def test_a_count_that_rises_is_told(
    tmp_path: Path, rule: str, before: dict[str, int], after: dict[str, int], severity: str
) -> None:
    machine = profiles.h200(1)
    first = told(tmp_path, machine, numbers(**before))
    machine.cards[0].numbers |= after
    then = sample(tmp_path, machine, tmp_path / "root")

    assert judged(first) == []
    assert [(each.rule, each.severity) for each in judged(first, then)] == [(rule, severity)]


@pytest.mark.parametrize("log", ["", None], ids=["with the kernel's log", "without"])
def test_an_xid_is_told_whoever_reports_it(tmp_path: Path, log: str | None) -> None:
    machine = profiles.h200(2)
    with watched(tmp_path, machine, log=log) as seen:
        seen.until(lambda found: found["collector_ok"])
        if log is None:
            machine.cards[1].xid(79)
            seen.show()
        else:
            with (seen.root / "dev/kmsg").open("a") as lines:
                lines.write(record(xid_line(79, "GPU has fallen off the bus.", pci="0000:28:00")))
        found = judged(seen.until(lambda found: found["happened"]))

    assert [(each.rule, each.severity, each.subject) for each in found] == [
        ("xid", "critical", machine.cards[1].uuid)
    ]
    assert found[0].title == "GPU 1 reported XID 79: it fell off the bus"


def test_a_driver_that_hangs_is_told(tmp_path: Path) -> None:
    machine = profiles.h200(1)
    with watched(tmp_path, machine, patience=0.5) as seen:
        seen.until(lambda found: found["collector_ok"])
        machine.sleeps["nvmlDeviceGetPowerUsage"] = 600
        seen.show()
        stale = seen.until(lambda found: found["stale_s"] is not None)

    found = judged(stale)
    assert [(each.rule, each.severity) for each in found] == [("collector", "critical")]
    assert found[0].because.startswith("NVML has not answered for")


def test_swap_is_told_by_what_the_kernel_counts(tmp_path: Path) -> None:
    root = proc.root(tmp_path / "root", meminfo={"SwapTotal": 16 * GIB, "SwapFree": 9 * GIB})
    found = judged(sample(tmp_path, profiles.gb10(), root))

    assert [(each.rule, each.severity) for each in found] == [("swap", "warning")]
    assert found[0].because.startswith("7.0 of 16.0 GiB of swap are in use.")


def test_a_disk_is_told_by_what_its_file_system_says(tmp_path: Path) -> None:
    disk = resources.disk(str(tmp_path))
    assert disk is not None
    assert disk.device == tmp_path.stat().st_dev
    full = dataclasses.asdict(disk) | {"free": disk.total // 1000}
    machine = told(tmp_path, profiles.h200(1), numbers())

    found = judged(machine | {"disks": {"cache": full}})

    assert [(each.rule, each.severity, each.subject) for each in found] == [
        ("disk", "critical", str(tmp_path))
    ]


def test_every_rule_is_tried() -> None:
    tried = {"ecc_corrected", "pcie_replays", "xid", "collector", "swap", "disk", *CASES}
    assert tried == set(RULES)
