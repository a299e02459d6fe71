"""What a collector reads of a card's errors, through the real nvidia-ml-py and the stand-in."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests import nvml
from tests.memory.hardware.machines import KMSG, record, watched, xid_line
from tests.memory.test_gpus import only_card, sample
from tests.nvml import SimulatedMachine, StandInCard, profiles


@pytest.fixture
def card() -> StandInCard:
    return profiles.h200(1).cards[0]


def test_errors_of_the_memory_are_counted_for_the_boot_and_for_ever(
    tmp_path: Path, card: StandInCard
) -> None:
    card.numbers |= {
        "ecc_corrected": 7, "ecc_uncorrected": 1, "ecc_corrected_ever": 90,
        "ecc_uncorrected_ever": 2, "rows_corrected": 3, "rows_uncorrected": 1,
        "rows_pending": 1, "rows_failed": 0, "rows_without_spare": 2,
    }  # fmt: skip
    gpu = only_card(tmp_path, card)

    assert gpu["ecc"] == {
        "corrected": 7, "uncorrected": 1, "corrected_ever": 90, "uncorrected_ever": 2,
    }  # fmt: skip
    assert gpu["rows"] == {
        "corrected": 3, "uncorrected": 1, "pending": True, "failed": False, "without_spare": 2,
    }  # fmt: skip
    assert gpu["retired"] is None


def test_an_older_card_retires_pages_instead_of_rows(tmp_path: Path, card: StandInCard) -> None:
    for name in [name for name in card.numbers if name.startswith("rows_")]:
        del card.numbers[name]
    assert only_card(tmp_path, card)["retired"] is None
    card.numbers |= {"retired_single": 3, "retired_double": 1, "retired_pending": 1}

    assert only_card(tmp_path, card)["retired"] == {"pages": 4, "pending": True}


def test_a_gpu_on_the_chip_has_no_link_no_ecc_and_no_rows(tmp_path: Path) -> None:
    gpu = sample(tmp_path, profiles.gb10())["gpus"][0]

    assert gpu["persistence"] is True
    assert gpu["pstate"] == 8
    for name in ("ecc", "rows", "retired", "pcie_replays", "margin_c", "slowdown_c", "shutdown_c"):
        assert gpu[name] is None, name


@pytest.mark.parametrize(
    ("code", "kind"), [(nvml.GPU_IS_LOST, "lost"), (nvml.RESET_REQUIRED, "reset")]
)
def test_a_fault_has_a_kind(tmp_path: Path, card: StandInCard, code: int, kind: str) -> None:
    card.errors["nvmlDeviceGetPowerUsage"] = code
    assert only_card(tmp_path, card)["fault_kind"] == kind
    card.errors["nvmlDeviceGetPowerUsage"] = nvml.UNKNOWN
    assert only_card(tmp_path, card)["fault_kind"] == "odd"
    del card.errors["nvmlDeviceGetPowerUsage"]
    assert only_card(tmp_path, card)["fault_kind"] is None


@pytest.mark.parametrize(
    "query", ["nvmlDeviceGetMarginTemperature", "nvmlDeviceGetTemperatureThreshold"]
)
def test_a_driver_that_does_not_know_a_question_makes_no_fault_of_the_card(
    tmp_path: Path, card: StandInCard, query: str
) -> None:
    card.errors[query] = nvml.INVALID_ARGUMENT
    gpu = only_card(tmp_path, card)

    assert (gpu["fault"], gpu["fault_kind"]) == (None, None)
    assert gpu["temperature_c"] == 31
    assert None in (gpu["margin_c"], gpu["slowdown_c"])


def test_an_odd_answer_that_is_seldom_asked_for_is_told_all_the_time(tmp_path: Path) -> None:
    machine = profiles.h200(1)
    machine.cards[0].errors["nvmlDeviceGetPersistenceMode"] = nvml.UNKNOWN
    with watched(tmp_path, machine) as seen:
        seen.until(lambda found: True)
        faults = {seen.until(lambda found: True)["gpus"][0]["fault_kind"] for _sample in range(14)}

    assert faults == {"odd"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (nvml.DRIVER_NOT_LOADED, "driver_not_loaded"),
        (nvml.LIB_RM_VERSION_MISMATCH, "driver_mismatch"),
        (nvml.NO_PERMISSION, "no_permission"),
        (nvml.UNKNOWN, "other"),
    ],
)
def test_why_the_driver_cannot_be_used_has_a_kind(tmp_path: Path, code: int, kind: str) -> None:
    machine = profiles.h200(1)
    machine.errors["nvmlInitWithFlags"] = code

    found = sample(tmp_path, machine)

    assert found["error_kind"] == kind
    assert found["unseen"]["nvml_xids"] == "NVML cannot be used."


def of(found: dict[str, Any], number: int) -> dict[str, Any] | None:
    return next((each for each in found["happened"] if each["number"] == number), None)


def test_an_xid_is_heard_of_through_nvml_and_stays_told(tmp_path: Path) -> None:
    machine = profiles.h200(2)
    machine.cards[1].xid(13)  # before anybody listened: nobody hears of it
    with watched(tmp_path, machine, log=None) as seen:
        first = seen.until(lambda found: found["collector_ok"])
        assert first["happened"] == []
        assert set(first["unseen"]) == {"kernel_log"}

        machine.cards[1].xid(79)
        machine.cards[1].xid(79)
        seen.show()

        told = of(seen.until(lambda found: of(found, 79)), 79)
        assert told is not None
        later = of(seen.until(lambda found: found["t"] > told["last"] + 0.2), 79)

    assert later is not None
    assert later == {
        "what": "xid", "number": 79, "gpu": machine.cards[1].uuid, "pci": "0000:28:00",
        "count": 2, "first": later["first"], "last": later["last"], "said": "",
        "sources": ["nvml"],
    }  # fmt: skip
    assert abs(later["last"] - time.time()) < 60


def test_the_kernels_log_tells_what_happened_before_anybody_listened(tmp_path: Path) -> None:
    lines = [
        record("usb 1-1: new device", after_boot=1),
        record(xid_line(48, "DBE (double bit error) ECC", pci="0000:28:00"), after_boot=2),
        " SUBSYSTEM=pci\n",
        record(xid_line(48, "again", pci="0000:28:00"), after_boot=3),
        record("NVRM: Xid (0000:18:00): 31, Ch 0000007e, MMU Fault", after_boot=4),
        record("NVRM: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51) returned from "
               "_memdescAllocInternal(pMemDesc) @ mem_desc.c:1359", after_boot=5),
    ]  # fmt: skip
    machine = profiles.h200(2)
    with watched(tmp_path, machine, log="".join(lines)) as seen:
        found = seen.until(lambda found: len(found["happened"]) == 3)

    ecc, mmu, memory = found["happened"]
    assert (ecc["number"], ecc["gpu"], ecc["count"]) == (48, machine.cards[1].uuid, 2)
    assert ecc["said"] == "again"
    assert ecc["last"] - ecc["first"] == pytest.approx(1.0, abs=0.01)
    assert (mmu["number"], mmu["gpu"]) == (31, machine.cards[0].uuid)
    assert (memory["what"], memory["gpu"]) == ("no_memory", None)
    assert memory["last"] == pytest.approx(time.time() - time.monotonic() + 5, abs=5)
    assert found["unseen"] == {}


def test_one_error_that_both_tell_of_counts_once(tmp_path: Path) -> None:
    machine = profiles.h200(1)
    with watched(tmp_path, machine) as seen:
        seen.until(lambda found: found["collector_ok"])
        machine.cards[0].xid(119)
        seen.show()
        with (seen.root / KMSG).open("a") as log:
            log.write(record(xid_line(119, "Timeout after 6s of waiting for RPC response")))

        told = of(
            seen.until(lambda found: len((of(found, 119) or {"sources": ()})["sources"]) == 2), 119
        )

    assert told is not None
    assert told["count"] == 1
    assert told["said"].startswith("Timeout after 6s")


def test_a_card_that_reports_no_xids_is_named(tmp_path: Path) -> None:
    machine = profiles.h200(2)
    machine.cards[1].errors["nvmlDeviceRegisterEvents"] = nvml.NOT_SUPPORTED
    found = sample(tmp_path, machine)
    assert found["unseen"]["nvml_xids"].startswith("GPU 1 reports none: NVML answers")

    machine.errors["nvmlEventSetCreate"] = nvml.NOT_SUPPORTED
    found = sample(tmp_path, machine)
    assert found["unseen"]["nvml_xids"].startswith("NVML answers")
    assert found["error"] is None


def test_a_lost_card_does_not_make_the_others_deaf(tmp_path: Path) -> None:
    machine = profiles.h200(2)
    with watched(tmp_path, machine, log=None) as seen:
        seen.until(lambda found: found["collector_ok"])
        machine.cards[0].lost = True
        seen.show()
        seen.until(lambda found: found["gpus"][0]["fault_kind"] == "lost")

        machine.cards[1].xid(31)
        seen.show()

        told = of(seen.until(lambda found: of(found, 31)), 31)
    assert told is not None
    assert told["gpu"] == machine.cards[1].uuid


def test_waiting_for_events_never_holds_a_sample_up(tmp_path: Path) -> None:
    machine = SimulatedMachine(cards=profiles.h200(1).cards)
    machine.errors["nvmlEventSetWait_v2"] = nvml.UNKNOWN
    with watched(tmp_path, machine) as seen:
        found = seen.until(lambda found: "nvml_xids" in found["unseen"])

    assert found["error"] is None
    assert found["gpus"][0]["temperature_c"] == 31
