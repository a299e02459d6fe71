"""Recordings in which clocks are set, and things that are not known for a while."""

from collections.abc import Callable
from typing import Any

import pytest

from servers.judge.memory.verdicts import Judge, MemoryVerdict
from tests.memory.scenes import BEGAN, GIB, OURS, MemoryScene, crashed, served

type Snapshot = dict[str, Any]


def judged(snapshots: list[Snapshot]) -> list[MemoryVerdict]:
    judge = Judge()
    return [each for snapshot in snapshots for each in judge.step(snapshot)]


def order(snapshots: list[Snapshot]) -> list[str]:
    found: list[str] = []
    for each in judged(snapshots):
        if found[-1:] != [each.verdict]:
            found.append(each.verdict)
    return found


def later(
    scene: MemoryScene, change: Callable[[Snapshot], object], seconds: float
) -> list[Snapshot]:
    """What was made of the scene, and so many seconds more in which each snapshot is changed."""
    before = len(scene.made)
    scene.for_(seconds)
    for each in scene.made[before:]:
        change(each)
    return scene.made


def set_clock(by: float) -> Callable[[Snapshot], object]:
    return lambda snapshot: snapshot.update(t=snapshot["t"] + by)


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_clock_that_is_set_neither_hides_a_loss_nor_hurries_it(by: float) -> None:
    scene = crashed(MemoryScene(), lost=33.0).for_(10)

    found = judged(later(scene, set_clock(by), 300))

    after = [each.verdict for each in found if each.verdict != "ok"]
    assert after.count("settling") == pytest.approx(240 / 5, abs=1)
    assert set(after[60:]) == {"reclaimable"}
    assert found[-1].t == scene.made[-1]["t"], "told in the box's own time"


def test_a_clock_that_is_set_forward_makes_no_loss_of_what_is_coming_back() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=60.0, gib=80.0).for_(5)
    later(scene, set_clock(3600), 15)
    scene.lost = 0
    assert order(later(scene, set_clock(3600), 300)) == ["ok", "settling", "ok"]


def test_an_end_is_told_in_the_time_of_a_clock_that_was_set() -> None:
    """Docker says when, by the clock that is right now; the judge's own time goes on as it was."""
    scene = served(MemoryScene(kind="discrete", total=96.0))
    later(scene, set_clock(-3600), 10)
    scene.end(100)
    scene.lost = 60.0
    scene.container("exited", scene.t - 3600)

    assert order(later(scene, set_clock(-3600), 200))[-1] == "leaked"


def test_somebody_s_container_that_has_ended_ends_only_once() -> None:
    scene = MemoryScene(kind="discrete", total=96.0, lost=20.0).for_(5)
    scene.containers = [{"id": "c", "ours": False, "state": "exited", "stopped_at": BEGAN}]

    assert order(later(scene, set_clock(-3600), 300))[-1] == "leaked"


@pytest.mark.parametrize("uptime", [50_000.0, None])
def test_an_uptime_that_does_not_go_on_stops_no_clock(uptime: float | None) -> None:
    scene = crashed(MemoryScene(), lost=33.0).for_(400)
    for each in scene.made:
        each["uptime_s"] = uptime
    assert order(scene.made)[-1] == "reclaimable"


@pytest.mark.parametrize("what", ["list", "state"])
def test_containers_that_are_not_known_for_a_while_have_not_ended(what: str) -> None:
    def hide(snapshot: Snapshot) -> None:
        if what == "list":
            snapshot["containers"] = None
        else:
            snapshot["containers"] = [each | {"state": None} for each in snapshot["containers"]]

    assert order(later(served(MemoryScene()), hide, 900)) == ["ok"]


def test_a_boot_without_its_name_is_the_same_boot() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=33.0, gib=60.0).for_(200)

    found = judged(later(scene, lambda snapshot: snapshot.update(boot_id=None), 10))

    assert found[-1].verdict == "leaked"


def test_a_boot_that_never_has_a_name_is_known_by_its_uptime() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=33.0, gib=60.0).for_(200)
    scene.uptime, scene.containers, scene.lost = 30.0, [], 0.0
    scene.for_(20)
    for each in scene.made:
        each["boot_id"] = None

    assert order(scene.made)[-2:] == ["leaked", "ok"]


def test_what_a_hung_collector_shows_does_not_count_afterwards() -> None:
    scene = served(MemoryScene())

    def hang(snapshot: Snapshot) -> None:
        snapshot.update(collector_ok=False, processes=None)
        snapshot["gpus"][0]["processes"] = []

    made = later(scene, hang, 120)
    scene.for_(60)

    assert order(made) == ["ok", "unknown", "ok"]
    assert "on their way back" not in judged(made)[-1].reason


@pytest.mark.parametrize("mapped", [None, False])
def test_shared_memory_that_nobody_can_look_at_is_not_accused(mapped: bool | None) -> None:
    scene = MemoryScene(cached=40.0, sees=mapped is None)
    scene.shm = [{"path": "/dev/shm/psm_1", "bytes": 30 * GIB, "mapped": mapped}]
    assert not any(each.alarm for each in judged(scene.for_(400).made))


def test_an_engine_of_somebody_else_s_is_nobody_s_orphan_after_115_days_either() -> None:
    """From then on the kernel counts more ticks than there were seconds since 1970 in 2001."""
    scene = MemoryScene(uptime=200 * 86_400.0)
    scene.container("running")
    scene.process(100, 60.0, container=OURS)
    scene.for_(300)
    scene.end(100)
    scene.container("exited", scene.t)
    scene.for_(400)
    scene.process(300, 70.0, ppid=1, start=int(scene.uptime * 100))
    assert order(scene.for_(400).made) == ["ok"]


@pytest.mark.parametrize("name", ["AnonPages", "Cached"])
def test_main_memory_that_is_not_told_apart_is_not_lost(name: str) -> None:
    scene = MemoryScene(cached=30.0, anonymous=30.0).for_(400)
    scene.events = [{"type": "reclaim", "level": 2}]
    scene.for_(200)
    for each in scene.made:
        del each["meminfo"][name]

    assert order(scene.made) == ["ok", "unknown"]
    assert name in judged(scene.made)[-1].reason


def test_a_reclaim_that_helped_in_part_is_known_from_few_samples_too() -> None:
    scene = crashed(MemoryScene(), lost=78.0).for_(600, 30)
    scene.lost, scene.events = 20.0, [{"type": "reclaim", "level": 2}]
    assert not any(each.alarm for each in judged(scene.for_(300, 30).made))


def crash_loop(scene: MemoryScene, rounds: int = 10) -> MemoryScene:
    """Others of our containers, started and failed again every 80 s."""
    before = scene.containers
    for number in range(rounds):
        one = {"id": f"{number + 1:x}" * 64, "run": 8 + number, "ours": True}
        scene.containers = [*before, one | {"state": "running", "stopped_at": None}]
        scene.process(200 + number, 1.5, container=one["id"])
        scene.for_(60)
        scene.end(200 + number)
        scene.containers = [*before, one | {"state": "exited", "stopped_at": scene.t}]
        scene.for_(20)
    return scene


def within_five_minutes(scene: MemoryScene, began: float) -> set[str]:
    """What was said in the fifth minute after that moment."""
    found = [each for each in judged(scene.made) if 240 < each.t - began <= 300]
    return {each.verdict for each in found}


@pytest.mark.parametrize("kind", ["unified", "discrete"])
def test_a_crash_loop_hides_no_orphan(kind: str) -> None:
    """The orphan is why each further start fails, and each ends anew."""
    scene = served(MemoryScene(kind=kind), gib=90.0)
    scene.container("exited", scene.t)
    began = scene.t

    assert within_five_minutes(crash_loop(scene), began) == {"residual"}


def test_a_crash_loop_hides_no_process_that_only_the_driver_still_knows() -> None:
    scene = served(MemoryScene())
    scene.container("exited", scene.t)
    scene.known.pop(100)
    began = scene.t

    assert within_five_minutes(crash_loop(scene), began) == {"leaked"}


@pytest.mark.parametrize(("kind", "verdict"), [("unified", "reclaimable"), ("discrete", "leaked")])
def test_a_crash_loop_hides_no_loss(kind: str, verdict: str) -> None:
    scene = crashed(MemoryScene(kind=kind), lost=33.0).for_(5)
    began = scene.t
    scene.for_(20)  # the first look at what is missing with nobody there
    assert verdict in within_five_minutes(crash_loop(scene), began)


def test_a_short_look_at_the_gpu_each_minute_hides_no_loss() -> None:
    scene = crashed(MemoryScene(), lost=78.0)
    began = scene.t
    for number in range(12):
        scene.for_(50)
        scene.process(900 + number, 0.3, name="python probe.py")
        scene.for_(5)
        scene.end(900 + number)
        if number == 8:
            scene.events = [{"type": "reclaim", "level": 2}]
    scene.for_(60)

    assert "reclaimable" in within_five_minutes(scene, began)
    assert judged(scene.made)[-1].verdict == "leaked", "the reclaim has not helped"


def test_an_engine_that_ends_after_an_earlier_loss_is_given_its_time() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=10.0, gib=40.0).for_(400)
    scene.container("running", name="d" * 64)
    scene.process(300, 60.0, container="d" * 64)
    scene.for_(100)
    scene.end(300)
    scene.container("exited", scene.t, name="d" * 64)
    scene.lost = 70.0
    scene.for_(10)

    assert judged(scene.made)[-1].verdict == "settling"


def test_managed_memory_of_an_engine_that_has_ended_is_given_its_time() -> None:
    scene = MemoryScene(kind="discrete", total=96.0).for_(400)
    scene.process(300, 0.3, name="llama-server")
    scene.lost = 60.0
    scene.for_(600)
    scene.end(300)
    scene.for_(10)

    assert judged(scene.made)[-1].verdict == "settling"


def test_an_orphan_of_which_the_driver_tells_no_size_is_ended_all_the_same() -> None:
    def hide(snapshot: Snapshot) -> None:
        snapshot["gpus"][0]["processes"] = [{"pid": 100, "used": None}]

    scene = served(MemoryScene())
    scene.container("exited", scene.t)
    found = judged(later(scene, hide, 400))

    assert found[-1].verdict == "residual"
    assert "does not report how much" in found[-1].reason
    scene.process(101, None, name="ollama", container="f" * 64)

    def hide_both(snapshot: Snapshot) -> None:
        hide(snapshot)
        snapshot["gpus"][0]["processes"].append({"pid": 101, "used": None})

    assert judged(later(scene, hide_both, 60))[-1].verdict == "unknown", "it may be the other's"


def test_huge_pages_of_a_node_are_no_loss() -> None:
    """A node's list counts them, and has no size of one nor a sum."""
    scene = MemoryScene(kind="numa", total=280.0).for_(400)
    for each in scene.made:
        node = each["gpus"][0]["node_meminfo"]
        node |= {"MemFree": node["MemFree"] - 60 * GIB, "HugePages_Total": 30_720}
        each["meminfo"]["Hugepagesize"] = 2 << 20
    assert order(scene.made) == ["ok"]
    assert judged(scene.made)[-1].unattributed == 0


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm"])
def test_page_cache_on_a_card_that_is_a_node_is_told_to_every_engine(engine: str) -> None:
    """CUDA counts only what is free of the node; the machine's own memory has no part in it."""
    scene = MemoryScene(kind="numa", total=280.0, cached=200.0)
    scene.pending = {"engine": engine, "needs": 250 * GIB}
    found = judged(scene.for_(60).made)[-1]
    assert found.verdict == "page_cache"
    assert "200.0 GiB" in found.reason
    scene.cached = 10.0
    assert judged(scene.for_(60).made)[-1].verdict == "ok"


def test_an_engine_s_name_is_known_in_any_spelling() -> None:
    scene = MemoryScene(cached=80.0, pending={"engine": "vLLM", "needs": 90 * GIB})
    assert order(scene.for_(60).made) == ["ok"]


def test_a_card_that_claims_to_have_no_memory_is_not_judged() -> None:
    scene = MemoryScene(kind="discrete")
    for each in scene.for_(60).made:
        each["gpus"][0] |= {"total": 0, "free": 0}
    assert order(scene.made) == ["unknown"]


def test_a_compute_capability_may_be_a_number() -> None:
    scene = crashed(MemoryScene(), lost=50.0).for_(400)
    for each in scene.made:
        each["gpus"][0] |= {"kind": None, "name": "NVIDIA", "total": 0, "compute_capability": 12.1}
    assert order(scene.made)[-1] == "reclaimable"


def test_nobody_is_told_to_end_what_takes_no_signal() -> None:
    scene = served(MemoryScene(kind="discrete", total=96.0), gib=80.0)
    scene.known[100]["state"] = "D"
    scene.container("exited", scene.t)
    assert order(scene.for_(200).made) == ["ok", "settling", "leaked"]


def test_what_has_come_back_is_not_said_to_be_on_its_way() -> None:
    scene = crashed(MemoryScene(), lost=33.0).for_(400)
    scene.lost = 0.0
    found = judged(scene.for_(20).made)[-1]
    assert (found.verdict, found.unattributed) == ("settling", 0)
    assert "is back" in found.reason
    assert "engine" not in found.reason


def test_an_engine_that_uses_the_pool_again_is_not_asked_about_it() -> None:
    scene = crashed(MemoryScene(pools=529), lost=78.0).for_(400)
    scene.container("running", name="b" * 64)
    scene.process(500, 80.0, container="b" * 64)
    scene.lost = 0.0
    scene.for_(100)
    assert order(scene.made) == ["ok", "settling", "reclaimable", "settling", "ok"]


@pytest.mark.parametrize("kind", ["unified", "discrete", "numa"])
def test_a_driver_that_lists_no_processes_proves_no_loss(kind: str) -> None:
    """NVML answers so under WSL, in virtual machines, and where MIG hides them."""
    scene = served(MemoryScene(kind=kind), gib=80.0)

    def hide(snapshot: Snapshot) -> None:
        snapshot["gpus"][0]["processes"] = None

    made = later(scene, hide, 600)
    scene.for_(60)

    assert order(made) == ["ok", "unknown", "ok"]
    said = {each.reason for each in judged(made) if each.verdict == "unknown"}
    assert len(said) == 1 and "does not list" in said.pop()  # noqa: PT018
    scene = MemoryScene(kind=kind, total=96.0)
    assert order(later(scene, hide, 600)) == ["ok"], "an empty GPU needs no list"


def test_cards_without_a_uuid_are_told_apart() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=96.0), lost=40.0, gib=60.0).for_(200)
    for each in scene.made:
        (card,) = each["gpus"]
        card["uuid"] = None
        each["gpus"] = [card, card | {"free": 95 * GIB, "processes": []}]

    found = judged(scene.made)[-2:]

    assert [each.verdict for each in found] == ["leaked", "ok"]
    assert [each.gpu for each in found] == ["NVIDIA GB10", "NVIDIA GB10 (2)"]
