"""What is said of the box as a whole: its driver, memory, swap and disks."""

from typing import Any

import pytest

from servers.judge.memory.hardware.finding import HardwareFinding
from tests.memory.hardware.scenes import GIB, HardwareScene, T, card, disk, gb10

MIB = 2**20


@pytest.mark.parametrize(
    ("kind", "severity", "words"),
    [
        ("driver_mismatch", "critical", "580.95.05"),
        ("driver_not_loaded", "critical", "kernel module is not"),
        ("no_permission", "warning", "/dev/nvidia"),
        ("other", "critical", "NVML answers"),
    ],
)
def test_a_driver_that_cannot_be_used(kind: str, severity: str, words: str) -> None:
    scene = HardwareScene()
    scene.pass_(5)
    scene.cards = []
    scene.values |= {"error_kind": kind, "error": "NVML answers “no”.", "collector_ok": False}
    assert scene.rules(3) == []
    found = scene.pass_(5)
    assert [(each.rule, each.severity) for each in found] == [("driver", severity)]
    assert words in found[0].because
    scene.values |= {"error_kind": None, "error": None, "collector_ok": True}
    scene.cards = [card()]
    assert scene.rules(2) == []


def test_a_box_without_nvidias_library_has_nothing_wrong() -> None:
    scene = HardwareScene()
    scene.cards = []
    scene.values |= {"error_kind": "no_library", "error": "No GPU …", "collector_ok": False}
    assert scene.pass_(120) == []


def test_a_driver_that_hangs_is_told_and_takes_nothing_back_of_what_was_known() -> None:
    scene = HardwareScene(card(throttle=["hw_thermal"]))
    assert scene.rules(60) == [("thermal", "critical")]
    since = scene.t
    scene.values |= {"collector_ok": False, "error": "NVML hangs."}
    found: list[HardwareFinding] = []
    for stale in range(5, 30):  # the time of the sample stands still
        scene.values["stale_s"] = float(stale)
        found = scene.judge.step(scene.sample())
    assert [(each.rule, each.severity) for each in found] == [
        ("collector", "critical"), ("thermal", "critical"),
    ]  # fmt: skip
    assert found[0].because == "NVML hangs."
    assert found[0].since == since
    scene.t += 31
    scene.values |= {"collector_ok": True, "stale_s": None, "error": None}
    scene.cards = [card()]
    assert scene.rules(60) == []


def test_memory_that_the_driver_did_not_get_is_critical_where_it_is_shared() -> None:
    event = {"what": "no_memory", "number": None, "gpu": None, "pci": None, "count": 2,
             "first": T, "last": T, "said": "NVRM: Out of memory", "sources": ["kernel"]}  # fmt: skip
    for cards, severity in (([gb10()], "critical"), ([card()], "warning")):
        scene = HardwareScene(*cards)
        scene.values["happened"] = [event]
        assert scene.rules() == [("driver_memory", severity)]
        scene.t += 3700
        assert scene.rules() == []


def test_programs_that_wait_for_memory() -> None:
    scene = HardwareScene()
    scene.values["pressure"] = {"some": 40.0, "full": 2.0}
    assert scene.pass_(10) == []
    found = scene.pass_(15)
    assert [(each.rule, each.severity) for each in found] == [("memory_pressure", "warning")]
    assert "40 %" in found[0].because
    assert "400.0 GiB are available" in found[0].because
    scene.values["pressure"] = {"some": 90.0, "full": 60.0}
    assert scene.rules(30) == [("memory_pressure", "critical")]
    scene.values["pressure"] = {"some": 0.0, "full": 0.0}
    assert scene.rules(10) == [("memory_pressure", "critical")]
    assert scene.rules(40) == []
    scene.values["pressure"] = None
    assert scene.rules(40) == []


def test_a_model_that_is_read_makes_programs_wait_for_a_moment_only() -> None:
    scene = HardwareScene()
    for _time in range(5):
        scene.values["pressure"] = {"some": 30.0, "full": 8.0}
        assert scene.pass_(12) == []
        scene.values["pressure"] = {"some": 3.0, "full": 0.0}
        assert scene.pass_(30) == []


@pytest.mark.parametrize(
    ("of", "severity"), [(card(), "info"), (gb10(), "warning")], ids=["discrete", "unified"]
)
def test_swap_in_use(of: dict[str, Any], severity: str) -> None:
    scene = HardwareScene(of)
    scene.values["meminfo"] |= {"SwapFree": 15.5 * GIB}
    assert scene.pass_(120) == []
    scene.values["meminfo"] |= {"SwapFree": 12 * GIB}
    assert scene.pass_(30) == []
    found = scene.pass_(40)
    assert [(each.rule, each.severity) for each in found] == [("swap", severity)]
    assert found[0].because.startswith("4.0 of 16.0 GiB of swap are in use.")


def test_a_storm_of_swapping() -> None:
    scene = HardwareScene(gb10())
    scene.pass_(10)
    found: list[HardwareFinding] = []
    for second in range(20):
        scene.values["swap"] = {"in": second * 150 * MIB, "out": second * 150 * MIB}
        found = scene.pass_(1)
    assert [(each.rule, each.severity) for each in found] == [("swap", "critical")]
    assert found[0].title == "The box swaps all the time"
    assert scene.rules(60) == []


def put(scene: HardwareScene, name: str, **told: Any) -> None:
    scene.values["disks"] = scene.values["disks"] | {name: disk(**told)}


def test_a_disk_that_fills_up_is_told_by_its_size_and_ends_when_there_is_room() -> None:
    scene = HardwareScene()
    put(scene, "cache", free=80, total=9000)
    found = scene.pass_(10)
    assert [(each.rule, each.severity, each.subject) for each in found] == [
        ("disk", "warning", "/data/hf")
    ]
    assert found[0].title == "The disk of the models' folder (/data/hf) is nearly full"
    assert found[0].because == "80.0 of 9000.0 GiB are free."
    put(scene, "cache", free=7, total=9000)
    found = scene.pass_(10)
    assert [each.severity for each in found] == ["critical"]
    assert "No checkpoint can be downloaded until there is space." in found[0].because
    put(scene, "cache", free=105, total=9000)  # a little more is not enough
    assert scene.rules(20) == [("disk", "critical")]
    assert scene.rules(40) == [("disk", "warning")]
    put(scene, "cache", free=400, total=9000)
    assert scene.rules(60) == []


@pytest.mark.parametrize(("free", "total", "expected"), [
    (30, 100, []), (19, 100, ["warning"]), (4, 100, ["critical"]),
    (120, 10_000, []), (4, 30, ["warning"]), (7, 30, []),
])  # fmt: skip
def test_what_is_little_goes_by_the_disk(free: float, total: float, expected: list[str]) -> None:
    scene = HardwareScene()
    put(scene, "images", free=free, total=total, path="/var/lib/docker", device=9)
    assert [each.severity for each in scene.pass_(10)] == expected


def test_two_folders_on_one_disk_are_one_finding() -> None:
    scene = HardwareScene()
    put(scene, "images", free=10, total=900, path="/var/lib/docker", device=7)
    put(scene, "cache", free=10, total=900, path="/home/ada/hf", device=7)
    found = scene.pass_(5)
    assert [each.subject for each in found] == ["/var/lib/docker"]
    assert "Docker's folder and the models' folder" in found[0].title
    assert "docker system df" in found[0].advice
    assert "hf cache ls" in found[0].advice


def test_a_disk_that_will_be_full_soon_is_told_before_it_is() -> None:
    scene = HardwareScene()
    free = 200.0
    found: list[HardwareFinding] = []
    for _look in range(12):
        put(scene, "cache", free=free, total=900)
        found = scene.pass_(10)
        free -= 5  # GiB in ten seconds
    assert [(each.rule, each.severity) for each in found] == [("disk", "warning")]
    assert "is soon full" in found[0].title
    assert "MiB/s: full in 5 min." in found[0].because
    for _look in range(40):
        put(scene, "cache", free=free, total=900)
        found = scene.pass_(10)
    assert found == []


def test_shared_memory_that_is_nearly_used_up() -> None:
    scene = HardwareScene()
    put(scene, "shm", free=3, total=64, path="/dev/shm", device=3)  # noqa: S108
    found = scene.pass_(5)
    assert [(each.rule, each.severity) for each in found] == [("disk", "warning")]
    assert found[0].title == "Shared memory (/dev/shm) is nearly full"


def test_what_is_worse_stands_first() -> None:
    scene = HardwareScene(card(persistence=False, throttle=["hw_thermal"]))
    put(scene, "cache", free=80, total=9000)
    found = [each.severity for each in scene.pass_(60)]
    assert found == ["critical", "warning", "info"]


def test_a_finding_survives_its_json() -> None:
    found = HardwareScene(card(persistence=False)).pass_(60)[0]
    assert HardwareFinding.from_json(found.to_json() | {"of a later version": 1}) == found
