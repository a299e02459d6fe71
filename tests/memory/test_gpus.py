"""What the cards say, through the real nvidia-ml-py and the stand-in of NVIDIA's library."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import nvml, proc
from tests.nvml import SimulatedMachine, StandIn, StandInCard, profiles

GIB = 1024**3
CHECKOUT = Path(__file__).parents[2]

# Every NVML call whose answer is one or more values of a card.
QUERIES = {
    "nvmlDeviceGetUUID": ["uuid"],
    "nvmlDeviceGetName": ["name"],
    "nvmlDeviceGetCudaComputeCapability": ["compute_capability"],
    "nvmlDeviceGetUtilizationRates": ["util", "mem_util"],
    "nvmlDeviceGetPowerUsage": ["power_w"],
    "nvmlDeviceGetEnforcedPowerLimit": ["power_limit_w"],
    "nvmlDeviceGetClockInfo": ["sm_mhz", "mem_mhz"],
    "nvmlDeviceGetMaxClockInfo": ["sm_max_mhz", "mem_max_mhz"],
    "nvmlDeviceGetFanSpeed": ["fan"],
    "nvmlDeviceGetCurrPcieLinkGeneration": ["pcie_gen"],
    "nvmlDeviceGetMaxPcieLinkGeneration": ["pcie_gen_max"],
    "nvmlDeviceGetCurrPcieLinkWidth": ["pcie_width"],
    "nvmlDeviceGetMaxPcieLinkWidth": ["pcie_width_max"],
    "nvmlDeviceGetPcieReplayCounter": ["pcie_replays"],
    "nvmlDeviceGetPciInfo_v3": ["pci"],
    "nvmlDeviceGetPerformanceState": ["pstate"],
    "nvmlDeviceGetPersistenceMode": ["persistence"],
    "nvmlDeviceGetMarginTemperature": ["margin_c"],
    "nvmlDeviceGetTemperatureThreshold": ["slowdown_c", "shutdown_c"],
    "nvmlDeviceGetTotalEccErrors": ["ecc"],
    "nvmlDeviceGetRemappedRows": ["rows"],
}


def sample(folder: Path, machine: SimulatedMachine, root: Path | None = None) -> dict[str, Any]:
    standin = StandIn(folder)
    standin.show(machine)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "servers.host.collector.child",
            "--once",
            "--root",
            str(root or "/"),
        ],
        env=standin.env,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def only_card(folder: Path, card: StandInCard) -> dict[str, Any]:
    found: dict[str, Any] = sample(folder, SimulatedMachine(cards=[card]))["gpus"][0]
    return found


@pytest.fixture
def card() -> StandInCard:
    card = profiles.h200(1).cards[0]
    card.numbers["fan"] = 40
    return card


def test_eight_cards_are_read_in_their_order(tmp_path: Path) -> None:
    found = sample(tmp_path, profiles.rtx_pro_6000(8))

    assert found["error"] is None
    assert found["driver"] == "580.95.05"
    assert [gpu["index"] for gpu in found["gpus"]] == list(range(8))
    assert len({gpu["uuid"] for gpu in found["gpus"]}) == 8
    assert {gpu["kind"] for gpu in found["gpus"]} == {"discrete"}
    assert {gpu["fault"] for gpu in found["gpus"]} == {None}


def test_a_card_says_everything_it_knows(tmp_path: Path, card: StandInCard) -> None:
    card.numbers |= {"util": 97, "mem_util": 61, "power": 612_345, "throttle": 0x44}
    gpu = only_card(tmp_path, card)

    del gpu["uuid"]
    assert gpu == {
        "index": 0, "name": "NVIDIA H200", "compute_capability": "9.0", "kind": "discrete",
        "total": 143771 * 1024**2, "used": 0, "free": 143166 * 1024**2,
        "reserved": 605 * 1024**2, "util": 97, "mem_util": 61, "temperature_c": 31,
        "power_w": 612.345, "power_limit_w": 700.0, "sm_mhz": 345, "sm_max_mhz": 1980,
        "mem_mhz": 3201, "mem_max_mhz": 3201, "throttle": ["sw_power_cap", "hw_thermal"],
        "fan": 40, "pcie_gen": 5, "pcie_gen_max": 5, "pcie_width": 16, "pcie_width_max": 16,
        "processes": [], "numa_node": None, "node_meminfo": None, "fault": None,
        "fault_kind": None, "pci": "0000:18:00", "pstate": 0, "margin_c": 55, "slowdown_c": 87,
        "shutdown_c": 92, "persistence": True, "pcie_replays": 0, "retired": None,
        "ecc": {"corrected": 0, "uncorrected": 0, "corrected_ever": 0, "uncorrected_ever": 0},
        "rows": {"corrected": 0, "uncorrected": 0, "pending": False, "failed": False,
                 "without_spare": 0},
    }  # fmt: skip


def test_used_leaves_out_what_the_driver_reserves(tmp_path: Path, card: StandInCard) -> None:
    card.run(os.getpid(), 40 * GIB)
    gpu = only_card(tmp_path, card)

    assert gpu["used"] == 40 * GIB
    assert gpu["used"] + gpu["free"] + gpu["reserved"] == gpu["total"]


def test_an_old_driver_has_no_reserved_memory_to_tell(tmp_path: Path, card: StandInCard) -> None:
    card.errors["nvmlDeviceGetMemoryInfo_v2"] = nvml.FUNCTION_NOT_FOUND
    gpu = only_card(tmp_path, card)

    assert gpu["reserved"] is None
    assert gpu["used"] == gpu["total"] - gpu["free"]


@pytest.mark.parametrize("query", QUERIES)
def test_what_a_card_does_not_report_is_none(tmp_path: Path, card: StandInCard, query: str) -> None:
    whole = only_card(tmp_path, card)
    card.errors[query] = nvml.NOT_SUPPORTED
    gpu = only_card(tmp_path, card)

    changed = {name for name in whole if whole[name] != gpu[name]}
    assert changed == set(QUERIES[query])
    assert all(gpu[name] is None for name in changed)


def test_a_card_that_reports_nothing_has_no_zero_anywhere(tmp_path: Path) -> None:
    gpu = only_card(tmp_path, StandInCard(uuid="GPU-1", name="NVIDIA Quiet", numbers={}))

    told = {name for name, value in gpu.items() if value is not None}
    # That there are no processes is an answer of its own.
    assert told == {"index", "uuid", "name", "kind", "processes"}


@pytest.mark.parametrize(
    ("new", "old", "name"),
    [
        ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature", "temperature_c"),
        (
            "nvmlDeviceGetCurrentClocksEventReasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            "throttle",
        ),
    ],
)
def test_older_calls_serve_older_drivers(
    tmp_path: Path, card: StandInCard, new: str, old: str, name: str
) -> None:
    whole = only_card(tmp_path, card)
    card.errors[new] = nvml.FUNCTION_NOT_FOUND
    assert only_card(tmp_path, card)[name] == whole[name]
    card.errors[old] = nvml.NOT_SUPPORTED
    assert only_card(tmp_path, card)[name] is None


def test_no_permission_is_no_fault(tmp_path: Path, card: StandInCard) -> None:
    card.errors["nvmlDeviceGetUtilizationRates"] = nvml.NO_PERMISSION
    gpu = only_card(tmp_path, card)

    assert gpu["util"] is None
    assert gpu["fault"] is None


def test_an_odd_answer_is_told_and_hides_nothing_else(tmp_path: Path, card: StandInCard) -> None:
    card.errors["nvmlDeviceGetPowerUsage"] = nvml.UNKNOWN
    gpu = only_card(tmp_path, card)

    assert gpu["power_w"] is None
    assert gpu["fault"] == "This GPU does not tell its power: Unknown Error."
    assert gpu["temperature_c"] == 31


def test_a_lost_card_hides_no_other(tmp_path: Path) -> None:
    machine = profiles.h200(4)
    machine.cards[2].lost = True
    gpus = sample(tmp_path, machine)["gpus"]

    assert [gpu["fault"] is None for gpu in gpus] == [True, True, False, True]
    assert "reboot the box" in gpus[2]["fault"]
    assert gpus[2]["total"] is None
    assert gpus[3]["total"] == 143771 * 1024**2


def test_reasons_without_a_name_are_not_hidden(tmp_path: Path, card: StandInCard) -> None:
    card.numbers["throttle"] = 0x1008
    assert only_card(tmp_path, card)["throttle"] == ["hw_slowdown", "unknown_0x1000"]
    card.numbers["throttle"] = 0
    assert only_card(tmp_path, card)["throttle"] == []


def test_a_process_in_two_lists_is_one(tmp_path: Path, card: StandInCard) -> None:
    card.run(100, 2 * GIB, "graphics")
    card.run(100, 3 * GIB, "compute")
    card.run(200, None, "compute")
    card.run(200, 1 * GIB, "mps")
    card.run(300, None, "mps")

    assert only_card(tmp_path, card)["processes"] == [
        {"pid": 100, "used": 3 * GIB},
        {"pid": 200, "used": 1 * GIB},
        {"pid": 300, "used": None},
    ]


def test_a_list_that_grows_between_the_two_calls_is_read_again(
    tmp_path: Path, card: StandInCard
) -> None:
    card.run(100, GIB)
    card.grow = 3
    gpu = only_card(tmp_path, card)

    assert gpu["processes"] == [{"pid": 100, "used": GIB}]
    assert gpu["fault"] is None


def test_a_list_that_never_stops_growing_is_told(tmp_path: Path, card: StandInCard) -> None:
    card.run(100, GIB)
    card.grow = 1000
    gpu = only_card(tmp_path, card)

    assert "compute processes" in gpu["fault"]


def test_processes_come_with_what_the_kernel_knows(tmp_path: Path, card: StandInCard) -> None:
    card.run(os.getpid(), GIB)
    card.run(2**22 + 1, GIB)  # beyond the greatest pid: NVML lists what the kernel has not
    found = sample(tmp_path, SimulatedMachine(cards=[card]))

    assert [process["pid"] for process in found["processes"]] == [os.getpid()]
    assert found["processes"][0]["title"].startswith(sys.orig_argv[0])
    assert found["processes"][0]["ppid"] == os.getppid()
    assert len(found["gpus"][0]["processes"]) == 2


def test_gb10_shows_the_memory_of_the_machine(tmp_path: Path) -> None:
    machine = profiles.gb10()
    machine.cards[0].run(4711, 34 * GIB)
    root = proc.gb10_root(tmp_path / "root")
    proc.process(root, 4711, cmdline=("sglang::scheduler",))
    found = sample(tmp_path, machine, root)

    gpu = found["gpus"][0]
    assert gpu["kind"] == "unified"
    assert gpu["total"] == found["meminfo"]["MemTotal"] == 125513040 * 1024
    assert gpu["free"] == found["meminfo"]["MemAvailable"] == 84 * GIB
    assert gpu["used"] == gpu["total"] - gpu["free"]
    assert gpu["processes"] == [{"pid": 4711, "used": 34 * GIB}]
    assert found["processes"][0]["title"] == "sglang::scheduler"
    for name in ("reserved", "mem_util", "mem_mhz", "fan", "power_limit_w", "pcie_gen"):
        assert gpu[name] is None, name


@pytest.mark.parametrize("total", [0, 125513040 * 1024, 122000000 * 1024])
def test_gb10_is_unified_whatever_form_its_memory_takes(tmp_path: Path, total: int) -> None:
    machine = profiles.gb10()
    machine.cards[0].numbers |= {"total": total, "free": total // 2, "reserved": 0}
    found = sample(tmp_path, machine, proc.gb10_root(tmp_path / "root"))

    assert found["gpus"][0]["kind"] == "unified"
    assert found["gpus"][0]["total"] == 125513040 * 1024


def test_a_card_of_its_own_that_hides_its_memory_does_not_get_the_machines(
    tmp_path: Path, card: StandInCard
) -> None:
    card.errors |= {
        "nvmlDeviceGetMemoryInfo": nvml.NO_PERMISSION,
        "nvmlDeviceGetMemoryInfo_v2": nvml.NO_PERMISSION,
    }
    gpu = only_card(tmp_path, card)

    assert gpu["kind"] == "discrete"
    assert gpu["total"] is gpu["used"] is gpu["free"] is gpu["reserved"] is None


def test_a_lost_gb10_does_not_show_the_machines_memory(tmp_path: Path) -> None:
    machine = profiles.gb10()
    machine.cards[0].lost = True
    gpu = sample(tmp_path, machine, proc.gb10_root(tmp_path / "root"))["gpus"][0]

    assert gpu["total"] is None
    assert "no longer answers" in gpu["fault"]


def test_a_station_has_two_kinds_of_card(tmp_path: Path) -> None:
    root = proc.root(tmp_path / "root")
    proc.node(root, 1, {"MemTotal": 277 * GIB, "MemFree": 270 * GIB, "AnonPages": GIB})
    numa, discrete = sample(tmp_path, profiles.gb300_station(), root)["gpus"]

    assert (numa["kind"], discrete["kind"]) == ("numa", "discrete")
    assert numa["numa_node"] == 1
    assert numa["node_meminfo"] == {
        "MemTotal": 277 * GIB, "MemFree": 270 * GIB, "AnonPages": GIB,
    }  # fmt: skip
    assert discrete["node_meminfo"] is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (nvml.DRIVER_NOT_LOADED, "sudo modprobe nvidia"),
        (nvml.LIB_RM_VERSION_MISMATCH, "old kernel module 575.64.03 is still loaded: reboot"),
        (nvml.NO_PERMISSION, "may not open /dev/nvidia"),
        (nvml.UNKNOWN, "compare with “nvidia-smi”"),
    ],
)
def test_a_driver_that_cannot_be_used_is_a_sentence(tmp_path: Path, code: int, words: str) -> None:
    root = proc.root(tmp_path / "root")
    proc.driver(root, "575.64.03")
    machine = profiles.h200()
    machine.errors["nvmlInitWithFlags"] = code
    found = sample(tmp_path, machine, root)

    assert words in found["error"]
    assert found["collector_ok"] is False
    assert found["gpus"] == []
    assert found["driver"] == "575.64.03"
    assert found["meminfo"]["MemTotal"] > 0


def test_without_the_library_the_memory_is_still_told(tmp_path: Path) -> None:
    standin = StandIn(tmp_path)
    (tmp_path / "empty").mkdir()
    # A library that is none, first on the path, so that a real driver is not found instead.
    (tmp_path / "empty" / "libnvidia-ml.so.1").touch()
    done = subprocess.run(
        [sys.executable, "-m", "servers.host.collector.child", "--once"],
        env=standin.env | {"LD_LIBRARY_PATH": str(tmp_path / "empty")},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)

    assert "libnvidia-ml.so.1 is not here" in found["error"]
    assert found["meminfo"]["MemTotal"] > 0


def test_a_person_sees_in_a_terminal_what_the_driver_says(tmp_path: Path) -> None:
    standin = StandIn(tmp_path)
    standin.show(profiles.rtx_pro_6000())

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "servers.host.gpus", "--once", *words],
            env=standin.env | env,
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
        )

    said = run("--json")
    cards = sample(tmp_path, profiles.rtx_pro_6000())["gpus"]
    assert [each["uuid"] for each in json.loads(said.stdout)] == [each["uuid"] for each in cards]
    assert [each["total"] for each in json.loads(said.stdout)] == [each["total"] for each in cards]
    assert len(run().stdout.splitlines()) == len(cards)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "libnvidia-ml.so.1").touch()
    missing = run(LD_LIBRARY_PATH=str(tmp_path / "empty"))
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "No GPU can be read" in missing.stderr
