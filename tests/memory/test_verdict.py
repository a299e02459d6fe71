"""Every case of memory that is not given back, and those that only look like one."""

from typing import Any

import pytest

from servers.judge.memory.verdicts import Judge, MemoryVerdict
from tests.memory.scenes import GIB, OURS, MemoryScene, crashed, served


def judged(scene: MemoryScene, judge: Judge | None = None) -> list[MemoryVerdict]:
    judge = judge or Judge()
    return [each for snapshot in scene for each in judge.step(snapshot)]


def last(scene: MemoryScene) -> MemoryVerdict:
    return judged(scene)[-1]


def alarms(scene: MemoryScene) -> list[MemoryVerdict]:
    return [each for each in judged(scene) if each.alarm]


def order(scene: MemoryScene) -> list[str]:
    """The verdicts in their order, each once."""
    found: list[str] = []
    for each in judged(scene):
        if not found or found[-1] != each.verdict:
            found.append(each.verdict)
    return found


def test_a_serving_engine_and_an_idle_box_are_fine() -> None:
    assert order(served(MemoryScene())) == ["ok"]
    assert order(served(MemoryScene(kind="discrete", total=96.0))) == ["ok"]
    assert order(served(MemoryScene(kind="numa", total=270.0))) == ["ok"]


def test_memory_that_comes_back_slowly_settles() -> None:
    scene = crashed(MemoryScene(), lost=80.0)
    while scene.lost > 0:
        scene.for_(10)
        scene.lost = max(0.0, scene.lost - 5)
    scene.for_(300)

    assert order(scene) == ["ok", "settling", "ok"]


def test_the_driver_s_pool_is_reclaimable_and_no_alarm() -> None:
    scene = crashed(MemoryScene(driver="590.48.01", pools=529), lost=78.46).for_(600)

    assert order(scene) == ["ok", "settling", "reclaimable"]
    found = last(scene)
    assert abs(found.unattributed / GIB - 78.46) < 0.1
    assert "NVreg_EnableSystemMemoryPools=0" in found.advice
    assert not alarms(scene)


def test_within_five_minutes_of_a_crash_it_is_known() -> None:
    scene = crashed(MemoryScene(), lost=33.0)
    ended = scene.t
    scene.for_(400)

    first = next(each for each in judged(scene) if each.verdict == "reclaimable")
    assert first.t - ended <= 300


def test_a_reclaim_that_helps_ends_it() -> None:
    scene = crashed(MemoryScene(driver="590.48.01", pools=529), lost=78.46).for_(400)
    scene.events = [{"type": "reclaim", "level": 2}]
    scene.lost = 0.2
    scene.for_(300)

    assert order(scene)[-1] == "ok"
    assert "leaked" not in order(scene)


def test_a_reclaim_that_does_not_help_means_a_restart() -> None:
    scene = crashed(MemoryScene(), lost=33.0).for_(400)
    scene.events = [{"type": "reclaim", "level": 3}]
    scene.for_(200)

    assert order(scene) == ["ok", "settling", "reclaimable", "settling", "leaked"]
    found = last(scene)
    assert found.alarm
    assert "estart the box" in found.advice

    scene.boot, scene.uptime, scene.lost, scene.containers = "two", 10.0, 0.0, []
    assert order(scene.for_(400))[-1] == "ok"


def test_flushing_the_page_cache_alone_is_no_reclaim() -> None:
    scene = crashed(MemoryScene(), lost=33.0).for_(400)
    scene.events = [{"type": "reclaim", "level": 1}]

    assert order(scene.for_(200))[-1] == "reclaimable"


def test_a_reclaim_for_an_earlier_loss_says_nothing_of_a_later_one() -> None:
    scene = crashed(MemoryScene(), lost=33.0).for_(400)
    scene.events = [{"type": "reclaim", "level": 3}]
    scene.lost = 0.0
    scene.for_(100)
    scene.container("running", name="b" * 64)
    scene.process(200, 90.0, container="b" * 64)
    scene.for_(300)
    scene.end(200)
    scene.lost = 20.0
    scene.container("exited", scene.t, name="b" * 64)

    assert order(scene.for_(600))[-1] == "reclaimable"


@pytest.mark.parametrize("pending", [None, {"engine": "vllm", "needs": 100 * GIB}])
def test_page_cache_alone_is_fine(pending: dict[str, Any] | None) -> None:
    scene = MemoryScene().for_(200)
    scene.cached, scene.pending = 72.0, pending

    assert order(scene.for_(600)) == ["ok"]


def test_page_cache_is_told_when_an_engine_that_cannot_see_past_it_waits() -> None:
    scene = MemoryScene(cached=72.0).for_(200)
    scene.pending = {"engine": "max", "needs": 60 * GIB}
    scene.for_(60)

    assert order(scene) == ["ok", "page_cache"]
    assert not alarms(scene)
    scene.pending = {"engine": "max", "needs": 20 * GIB}
    assert order(scene.for_(60))[-1] == "ok"


def test_a_worker_that_outlived_its_container_is_residual() -> None:
    scene = served(MemoryScene(), gib=101.8)
    scene.known[100] |= {"ppid": 1}
    scene.container("exited", scene.t)
    scene.for_(400)

    assert order(scene) == ["ok", "settling", "residual"]
    found = last(scene)
    assert "Process 100 (VLLM::EngineCore)" in found.reason
    assert "SIGTERM" in found.advice
    scene.end(100)
    assert order(scene.for_(400))[-1] == "ok"


@pytest.mark.parametrize("container", [None, "c" * 64])
def test_an_orphan_that_left_its_container_s_cgroup_is_residual_too(container: str | None) -> None:
    scene = served(MemoryScene(kind="discrete", total=96.0))
    scene.end(100)
    scene.process(101, 22.0, "VLLM::Worker_TP0", ppid=1, container=container)
    scene.containers = []  # docker rm -f

    assert order(scene.for_(200))[-1] == "residual"


def test_somebody_else_s_engine_is_nobody_s_orphan() -> None:
    scene = MemoryScene().for_(200)
    scene.process(300, 60.0, "python3", ppid=1)
    scene.process(301, 30.0, "VLLM::EngineCore", ppid=300)

    assert order(scene.for_(600)) == ["ok"]


def test_an_engine_with_managed_memory_is_not_accused() -> None:
    scene = served(MemoryScene(), gib=2.0)
    scene.lost = 40.0
    scene.for_(600)

    assert order(scene) == ["ok", "unknown"]
    assert not alarms(scene)


def test_an_engine_whose_memory_the_driver_does_not_tell_is_not_accused() -> None:
    scene = MemoryScene().for_(300)
    scene.process(100, None)
    scene.lost = 40.0

    assert order(scene.for_(600)) == ["ok", "unknown"]


def test_without_the_box_s_processes_nobody_is_accused() -> None:
    scene = MemoryScene(sees=False).for_(200)
    scene.lost = 70.0
    scene.for_(600)

    assert order(scene) == ["ok", "unknown"]
    assert "pid: host" in last(scene).advice


def test_a_collector_that_hangs_knows_nothing() -> None:
    scene = MemoryScene().for_(100)
    scene.is_well = False

    assert order(scene.for_(100)) == ["ok", "unknown"]


def test_a_gpu_without_figures_is_not_judged() -> None:
    snapshot = MemoryScene().snapshot()
    snapshot["gpus"][0] |= {"kind": "discrete", "total": None, "free": None}

    (found,) = Judge().step(snapshot)
    assert (found.verdict, found.gpu) == ("unknown", "GPU-1")


def test_little_drifts_are_fine() -> None:
    scene = MemoryScene()
    for number in range(40):
        scene.lost = 0.3 * (number % 5)
        scene.for_(30)

    assert order(scene) == ["ok"]


@pytest.mark.parametrize("name", ["Xorg", "/usr/lib/xorg/Xorg vt2 -displayfd 3", "gnome-shell"])
def test_a_desktop_on_a_card_is_fine_and_hides_no_loss(name: str) -> None:
    scene = MemoryScene(kind="discrete", total=96.0)
    scene.process(50, 0.06, name, ppid=1)
    scene.for_(600)
    assert order(scene) == ["ok"]

    scene.lost = 70.0
    assert order(scene.for_(200))[-1] == "leaked"


def test_a_card_that_holds_memory_for_nobody_has_lost_it() -> None:
    scene = crashed(MemoryScene(kind="discrete", total=141.0), lost=70.0)
    ended = scene.t
    scene.for_(300)

    found = judged(scene)
    assert next(each for each in found if each.alarm).t - ended <= 95
    assert "gpu-reset" in found[-1].advice


def test_a_loss_before_the_first_look_is_not_taken_for_normal() -> None:
    scene = MemoryScene(kind="discrete", total=141.0, lost=70.0).for_(400)
    assert order(scene)[-1] == "leaked"

    assert (
        order(MemoryScene(lost=78.0, driver="590.48.01", pools=529).for_(400))[-1] == "reclaimable"
    )


def test_a_worker_in_the_driver_for_ever_needs_a_restart() -> None:
    scene = served(MemoryScene(), gib=60.0)
    scene.known[100] |= {"state": "D"}
    scene.container("exited", scene.t)
    scene.for_(400)

    assert order(scene)[-1] == "leaked"
    assert "stuck in the driver" in last(scene).reason


def test_a_worker_that_reads_a_slow_disk_is_no_loss() -> None:
    scene = served(MemoryScene(), gib=60.0)
    for state in "DDSDDDDSDD":
        scene.known[100] |= {"state": state}
        scene.for_(50)

    assert order(scene) == ["ok"]


def test_a_process_that_only_the_driver_still_knows_is_lost() -> None:
    scene = served(MemoryScene(), gib=60.0)
    del scene.known[100]
    scene.container("exited", scene.t)
    scene.for_(400)

    assert order(scene) == ["ok", "settling", "leaked"]
    assert "the driver still keeps 60.0 GiB" in last(scene).reason


def test_orphaned_shared_memory_is_named() -> None:
    scene = MemoryScene().for_(100)
    scene.shm = [
        {"path": "/dev/shm/psm_1", "bytes": 18 * GIB, "mapped": False},
        {"path": "/dev/shm/used", "bytes": 30 * GIB, "mapped": True},
    ]
    scene.for_(100)

    found = last(scene)
    assert found.verdict == "residual"
    assert "18.0 GiB" in found.reason
    assert "/dev/shm/psm_1" in found.reason
    assert "used" not in found.reason.split(": ")[1]


def test_programs_of_the_box_are_told_and_no_alarm() -> None:
    scene = MemoryScene().for_(300)
    scene.anonymous = 30.0
    scene.for_(300)

    assert order(scene) == ["ok"]
    assert "27.0 GiB more" in last(scene).reason


def test_a_box_that_has_just_started_is_given_time() -> None:
    scene = MemoryScene(uptime=5.0, lost=30.0).for_(100)
    scene.lost = 0.0

    assert order(scene.for_(200)) == ["ok"]


def test_a_boot_with_less_memory_than_earlier_ones_is_seen() -> None:
    judge = Judge()
    judged(MemoryScene().for_(300), judge)

    later = MemoryScene(boot="two", lost=26.0).for_(300)

    assert judged(later, judge)[-1].verdict == "reclaimable"


def test_what_was_missing_from_the_start_is_not_blamed_on_engines() -> None:
    judge = Judge()
    judged(MemoryScene().for_(300), judge)

    later = MemoryScene(boot="two", lost=26.0, uptime=20.0).for_(400)
    found = judged(later, judge)[-1]

    assert found.verdict == "reclaimable"
    assert "started with 26.0 GiB less" in found.reason
    assert "a restart alone does not help" in found.advice
    later.events = [{"type": "reclaim", "level": 2}]
    found = judged(later.for_(100), judge)[-1]
    assert (found.verdict, "started with 26.0 GiB less" in found.reason) == ("leaked", True)


@pytest.mark.parametrize("uptime", [20.0, 50_000.0])
def test_what_engines_have_lost_is_not_blamed_on_the_start(uptime: float) -> None:
    judge = Judge()
    judged(MemoryScene().for_(300), judge)

    later = crashed(MemoryScene(boot="two", uptime=uptime, lost=26.0 * (uptime > 600)), lost=33.0)
    found = judged(later.for_(400), judge)[-1]

    assert found.verdict == "reclaimable"
    assert "started with" not in found.reason


def test_the_best_of_earlier_boots_lowers_what_counts_as_normal() -> None:
    best: dict[str, int] = {}
    judged(MemoryScene().for_(300), Judge(best=best))
    (kept,) = best.values()
    assert abs(kept / GIB - 0.5) < 0.01

    found = judged(MemoryScene(boot="two", lost=5.0).for_(300), Judge(best=best))[-1]
    assert abs(found.unattributed / GIB - 3.0) < 0.1, "0.5 GiB and 2 GiB more count as normal"


def test_the_loss_has_to_last_a_minute() -> None:
    scene = MemoryScene().for_(300)
    for _ in range(10):
        scene.lost = 30.0
        scene.for_(50)
        scene.lost = 0.0
        scene.for_(40)

    assert order(scene) == ["ok"]
    assert OURS not in str(judged(scene))


def test_a_start_on_the_same_gpu_after_a_loss_is_not_alarmed() -> None:
    scene = crashed(MemoryScene(driver="590.48.01", pools=529), lost=60.0).for_(400)
    scene.process(500, 50.0, container="d" * 64)
    scene.containers.append(
        {"id": "d" * 64, "run": 8, "ours": True, "state": "running", "stopped_at": None}
    )
    scene.for_(300)

    assert last(scene).verdict == "unknown"
    assert not alarms(scene)
