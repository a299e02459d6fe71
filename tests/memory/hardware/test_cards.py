"""What is said of a card, after how long, and what is no fault."""

import json
from pathlib import Path
from typing import Any

import pytest

from servers.judge.memory.hardware.judge import HardwareJudge
from tests.memory.hardware.scenes import UUID, HardwareScene, T, card, gb10, idle, xid

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.mark.parametrize(
    "well",
    [
        card(), idle(), gb10(), gb10(util=0, power_w=4.0, sm_mhz=208, throttle=["gpu_idle"]),
        card(throttle=["sw_power_cap", "applications_clocks"], power_w=600.0),
        idle(pcie_width=8), card(throttle=["sync_boost", "display_clocks"]),
    ],
)  # fmt: skip
def test_work_and_idleness_are_no_faults(well: dict[str, Any]) -> None:
    assert HardwareScene(well).pass_(600) == []


def test_a_lost_card_is_told_after_some_seconds_and_ends_when_it_is_back() -> None:
    scene = HardwareScene(card(), card(index=1, uuid="GPU-two"))
    assert scene.pass_(10) == []
    lost = dict.fromkeys(card()) | {
        "index": 1,
        "uuid": "GPU-two",
        "fault": "Lost.",
        "fault_kind": "lost",
    }
    scene.cards[1] = lost
    assert scene.rules(3) == []

    found = scene.pass_(3)

    assert [(each.rule, each.severity, each.subject) for each in found] == [
        ("gpu_lost", "critical", "GPU-two")
    ]
    assert found[0].title == "GPU 1 no longer answers"
    assert found[0].since == pytest.approx(T + 10, abs=1)
    scene.cards[1] = card(index=1, uuid="GPU-two")
    assert scene.rules(10) == []


def test_a_card_that_the_driver_no_longer_lists_is_lost_until_the_next_boot() -> None:
    scene = HardwareScene(card(), card(index=1, uuid="GPU-two"))
    scene.pass_(10)
    del scene.cards[1]
    assert scene.rules(10) == [("gpu_lost", "critical")]
    scene.values["boot_id"] = "two"
    assert scene.rules(10) == []


def test_a_card_that_tells_its_uuid_late_is_not_missed() -> None:
    scene = HardwareScene(
        dict.fromkeys(card()) | {"index": 0, "fault": "Lost.", "fault_kind": "lost"}
    )
    assert scene.rules(10) == [("gpu_lost", "critical")]
    scene.cards = [card()]
    assert scene.pass_(20) == []


def test_a_reset_that_is_asked_for_and_an_odd_answer_are_faults_of_their_own() -> None:
    scene = HardwareScene(card(fault="It needs a reset.", fault_kind="reset", total=None))
    assert scene.rules(10) == [("gpu_reset", "critical")]
    scene = HardwareScene(
        card(fault="This GPU does not tell its power: Unknown Error.", fault_kind="odd")
    )
    assert scene.rules(20) == []
    found = scene.pass_(20)
    assert (found[0].rule, found[0].severity) == ("gpu_answer", "warning")
    assert "does not tell its power" in found[0].because


def test_a_recording_without_the_kind_of_a_fault_is_read_as_well() -> None:
    old = card(fault="This GPU no longer answers.", total=None)
    del old["fault_kind"]
    assert HardwareScene(old).rules(10) == [("gpu_lost", "critical")]


def test_an_older_recording_accuses_nobody() -> None:
    scene = HardwareScene()
    kept = ("index", "uuid", "kind", "total", "util")
    scene.cards = [{name: card()[name] for name in kept}]
    scene.values = {"boot_id": None}
    assert scene.pass_(120) == []


def test_persistence_mode_off_is_worth_a_word_on_a_card_but_not_on_the_chip() -> None:
    found = HardwareScene(idle(persistence=False)).pass_(40)
    assert [(each.rule, each.severity) for each in found] == [("persistence", "info")]
    assert "nvidia-smi -pm 1" in found[0].advice
    assert HardwareScene(gb10(persistence=False)).pass_(40) == []
    assert HardwareScene(idle(persistence=None)).pass_(40) == []


def test_a_link_is_slow_only_under_load_and_stays_so_until_a_load_shows_better() -> None:
    scene = HardwareScene(idle())
    assert scene.pass_(60) == []
    scene.cards = [card(pcie_gen=1, pcie_width=8)]
    assert scene.pass_(10) == []
    found = scene.pass_(20)
    assert [(each.rule, each.severity) for each in found] == [("pcie_link", "warning")]
    assert "Gen1 ×8 instead of Gen5 ×16" in found[0].because
    scene.cards = [idle()]
    assert [each.because for each in scene.pass_(120)] == [found[0].because]
    scene.cards = [card()]
    assert scene.pass_(30) == []


@pytest.mark.parametrize(
    ("link", "severity"),
    [
        ({"pcie_width": 8}, "info"), ({"pcie_width": 4}, "warning"), ({"pcie_gen": 4}, "warning"),
        ({"pcie_gen": 4, "pcie_width": 8}, "warning"),
    ],
)  # fmt: skip
def test_half_the_lanes_are_what_many_boards_give(link: dict[str, int], severity: str) -> None:
    found = HardwareScene(card(**link)).pass_(40)
    assert [(each.rule, each.severity) for each in found] == [("pcie_link", severity)]
    assert ("Many boards" in found[0].advice) == (severity == "info")


def test_a_link_that_wakes_with_the_first_work_is_no_slow_link() -> None:
    scene = HardwareScene(idle())
    for _burst in range(20):
        scene.cards = [card(pcie_gen=1)]
        scene.pass_(2)
        scene.cards = [card()]
        scene.pass_(5)
        scene.cards = [idle()]
        assert scene.pass_(10) == []


def test_many_replays_within_minutes_are_a_bad_link_and_old_ones_are_not() -> None:
    scene = HardwareScene(card(pcie_replays=9000))
    assert scene.pass_(60) == []
    for count in range(9000, 9060, 2):
        scene.cards = [card(pcie_replays=count)]
        found = scene.pass_(1)
    assert [(each.rule, each.severity) for each in found] == [("pcie_replays", "warning")]
    assert scene.rules(400) == [("pcie_replays", "warning")]
    assert scene.rules(700) == []


@pytest.mark.parametrize(
    ("values", "severity", "words"),
    [
        ({"temperature_c": 92, "margin_c": 1}, "warning", "92 °C, 1 °C below"),
        ({"temperature_c": 86, "margin_c": None, "slowdown_c": 87}, "warning", "slows down at 87"),
        ({"temperature_c": 90, "margin_c": 30, "shutdown_c": 92}, "critical", "turns itself off"),
        ({"temperature_c": 93, "margin_c": None}, "warning", "93 °C"),
    ],
)
def test_a_card_near_its_own_limits_is_too_hot(
    values: dict[str, Any], severity: str, words: str
) -> None:
    scene = HardwareScene(card(**values))
    scene.pass_(1)
    found = scene.pass_(25)
    assert [(each.rule, each.severity) for each in found] == [("thermal", severity)]
    assert words in found[0].because
    cooled = {"temperature_c": 60, "margin_c": None if values["margin_c"] is None else 30}
    scene.cards = [card(**values | cooled)]
    assert scene.rules(20) == [("thermal", severity)]
    assert scene.rules(20) == []


def test_a_moment_of_heat_is_none() -> None:
    scene = HardwareScene(card(margin_c=0))
    assert scene.pass_(10) == []
    scene.cards = [card()]
    assert scene.pass_(60) == []


def flickering(
    scene: HardwareScene, reasons: list[str], *, so: int, of: int, rounds: int
) -> list[Any]:
    found: list[Any] = []
    for _round in range(rounds):
        scene.cards = [scene.cards[0] | {"throttle": reasons}]
        scene.pass_(so)
        scene.cards = [scene.cards[0] | {"throttle": []}]
        found = scene.pass_(of - so)
    return found


def test_brakes_that_come_and_go_are_told_and_a_single_one_is_not() -> None:
    scene = HardwareScene(card())
    scene.pass_(120)
    assert flickering(scene, ["hw_thermal", "hw_slowdown"], so=1, of=60, rounds=3) == []
    found = flickering(scene, ["hw_thermal", "hw_slowdown"], so=2, of=10, rounds=8)
    assert [(each.rule, each.severity) for each in found] == [("thermal", "warning")]
    assert "of the last minute" in found[0].because
    scene.cards = [card(throttle=["hw_thermal"])]
    assert scene.rules(60) == [("thermal", "critical")]
    scene.cards = [card()]
    assert scene.rules(70) == []


@pytest.mark.parametrize("reason", ["hw_power_brake", "hw_slowdown"])
def test_a_power_brake_is_the_power_supplys(reason: str) -> None:
    found = HardwareScene(card(throttle=[reason])).pass_(60)
    assert [(each.rule, each.severity) for each in found] == [("power_brake", "critical")]
    assert "580 of 600 W" in found[0].because


def test_a_gentle_slow_down_is_told_when_it_goes_on() -> None:
    scene = HardwareScene(card(throttle=["sw_thermal"]))
    assert scene.pass_(200) == []
    found = scene.pass_(100)
    assert [(each.rule, each.severity) for each in found] == [("thermal", "warning")]
    assert found[0].title == "GPU 0 is slowed down by heat"


def test_a_gb10_that_is_held_down_is_told_from_one_that_is_deadlocked() -> None:
    stuck = gb10(sm_mhz=799, power_w=19.5)
    scene = HardwareScene(stuck)
    assert scene.pass_(30) == []
    found = scene.pass_(60)
    assert [(each.rule, each.severity) for each in found] == [("low_power", "warning")]
    assert "799 MHz and 20 W" in found[0].because
    assert "power adapter" in found[0].advice
    scene.cards = [gb10(util=0, sm_mhz=208, power_w=4.0)]
    assert scene.rules(120) == [("low_power", "warning")]
    scene.cards = [gb10()]
    assert scene.rules(90) == []

    assert HardwareScene(gb10(sm_mhz=2418, power_w=16.0)).pass_(600) == []
    assert HardwareScene(gb10(sm_mhz=900, power_w=30.0, throttle=["sw_thermal"])).pass_(120) == []
    assert HardwareScene(card(sm_mhz=600, power_w=30.0)).pass_(600) == []


def test_an_uncorrected_error_is_critical_while_it_is_new() -> None:
    def ecc(count: int) -> dict[str, Any]:
        return card(ecc={"corrected": 0, "uncorrected": count, "uncorrected_ever": count + 1})

    scene = HardwareScene(ecc(1))
    assert scene.rules(5) == [("ecc_uncorrected", "warning")]  # from before anybody looked
    scene.cards = [ecc(2)]
    found = scene.pass_(5)
    assert [(each.rule, each.severity) for each in found] == [("ecc_uncorrected", "critical")]
    assert found[0].because == (
        "Errors that could not be corrected since the driver was loaded: 2, 1 of them in the last "
        "hour. In the card's life: 3."
    )
    assert found[0].code == "memory.ecc-uncorrected-lately"
    assert scene.rules(3700) == [("ecc_uncorrected", "warning")]
    scene.cards = [ecc(0)]
    assert scene.pass_(5) == []


def test_errors_that_were_corrected_are_told_only_when_they_are_many() -> None:
    scene = HardwareScene(card())
    scene.pass_(5)
    for count in (5, 60, 99):
        scene.cards = [card(ecc={"corrected": count, "uncorrected": 0})]
        assert scene.pass_(60) == []
    scene.cards = [card(ecc={"corrected": 180, "uncorrected": 0})]
    assert scene.rules(5) == [("ecc_corrected", "info")]


@pytest.mark.parametrize(
    ("rows", "severity", "words"),
    [
        ({"failed": True, "pending": True}, "critical", "could not replace"),
        ({"pending": True}, "warning", "waits for a reset"),
        ({"without_spare": 2}, "warning", "has used up spare rows"),
    ],
)
def test_rows_that_were_replaced(rows: dict[str, Any], severity: str, words: str) -> None:
    whole = card()["rows"] | {"corrected": 4, "uncorrected": 1} | rows
    found = HardwareScene(card(rows=whole)).pass_(1)
    assert [(each.rule, each.severity) for each in found] == [("row_remapping", severity)]
    assert words in found[0].title
    assert (
        HardwareScene(card(rows=card()["rows"] | {"corrected": 9, "uncorrected": 2})).pass_(5) == []
    )


@pytest.mark.parametrize(
    ("pages", "pending", "expected"),
    [(3, False, []), (3, True, ["warning"]), (60, False, ["critical"])],
)
def test_pages_that_were_retired(pages: int, pending: bool, expected: list[str]) -> None:
    old = card(rows=None, retired={"pages": pages, "pending": pending})
    found = HardwareScene(old).pass_(1)
    assert [each.severity for each in found] == expected
    assert {each.rule for each in found} <= {"retired_pages"}


def test_xids_are_told_by_what_they_mean_and_for_as_long_as_they_matter() -> None:
    scene = HardwareScene(card())
    scene.values["happened"] = [xid(13, count=3)]
    found = scene.pass_(1)
    assert [(each.rule, each.severity, each.subject) for each in found] == [("xid", "info", UUID)]
    assert found[0].title.startswith("GPU 0 reported XID 13: a kernel computed")
    assert "Mostly a fault of the program" in found[0].because
    assert "3 times" in found[0].because
    scene.t += 3700
    assert scene.pass_(1) == []

    scene.values["happened"].append(xid(79, first=scene.t, last=scene.t, said="GPU has fallen off"))
    found = scene.pass_(1)
    assert [(each.rule, each.severity) for each in found] == [("xid", "critical")]
    assert "“GPU has fallen off”" in found[0].because
    scene.t += 20 * 3600
    assert scene.rules() == [("xid", "critical")]
    scene.t += 5 * 3600
    assert scene.rules() == []


def test_several_xids_of_a_card_are_one_finding_led_by_the_worst() -> None:
    scene = HardwareScene(card())
    scene.values["happened"] = [xid(13), xid(31), xid(48), xid(13, gpu="GPU-elsewhere")]
    found = scene.pass_(1)
    assert [(each.rule, each.severity, each.subject) for each in found] == [
        ("xid", "critical", UUID), ("xid", "info", "GPU-elsewhere"),
    ]  # fmt: skip
    assert "Also XID 13 (" in found[0].because
    assert "XID 31 (" in found[0].because


def test_a_recovery_that_needs_nothing_any_more_is_not_told() -> None:
    scene = HardwareScene(card())
    words = "GPU recovery action changed from 0x{} to 0x{}"
    scene.values["happened"] = [xid(154, said=words.format("0 (None)", "1 (GPU Reset Required)"))]
    found = scene.pass_(1)
    assert [(each.rule, each.severity) for each in found] == [("xid", "critical")]
    assert "(GPU Reset Required)" in found[0].because
    scene.values["happened"] = [xid(154, said=words.format("1 (GPU Reset Required)", "0 (None)"))]
    assert scene.pass_(1) == []


def test_an_unknown_xid_says_that_it_is_unknown() -> None:
    scene = HardwareScene(card())
    scene.values["happened"] = [xid(9999)]
    found = scene.pass_(1)
    assert [(each.rule, each.severity) for each in found] == [("xid", "warning")]
    assert found[0].title == "GPU 0 reported XID 9999: unknown to inferdash"
    assert "catalog" in found[0].advice


def test_a_restart_of_the_box_ends_what_was_said() -> None:
    scene = HardwareScene(card(throttle=["hw_thermal"]))
    assert scene.rules(60) == [("thermal", "critical")]
    scene.values["boot_id"] = "two"
    scene.cards = [card()]
    assert scene.pass_(1) == []


def test_a_recorded_h100_has_nothing_wrong_but_the_xid_that_a_program_caused() -> None:
    lines = (RECORDINGS / "discrete-h100.jsonl").read_text().splitlines()
    judge = HardwareJudge()

    told = [judge.step(json.loads(line)) for line in lines]

    assert told[:8] == [[]] * 8
    assert [(each.rule, each.severity) for each in told[-1]] == [("xid", "info")]
    assert "XID 31" in told[-1][0].title
