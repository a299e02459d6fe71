"""What is said of the return of an engine's memory, from sequences of snapshots."""

from typing import Any

import pytest

from servers.judge.memory import release, release_words
from servers.judge.memory.release import Before, Release
from tests.memory.scenes import GIB, OURS, MemoryScene


def at_work(scene: MemoryScene, gib: float | None = 60.0, **process: Any) -> Before:
    """A box that was idle, and on which our engine then runs."""
    found = release.measure_before(scene.snapshot(), "all", now=scene.t)
    assert found is not None
    scene.container("running")
    scene.process(100, gib, container=OURS, **process)
    return found


def followed(
    before: Before, scene: MemoryScene, *, held: float | None = 60.0, began: float | None = None
) -> list[Release]:
    """What is said at each moment of the scene, which begins with the engine's end."""
    moments = list(scene)
    ended = moments[0]["t"]
    so_far = Release(held=None if held is None else int(held * GIB))
    said = []
    for snapshot in moments:
        seen = release.look(before, snapshot, OURS, began=began, ended=ended)
        so_far = release.step(so_far, seen, before, ended=ended, now=snapshot["t"])
        so_far = Release.from_json(so_far.to_json())
        said.append(so_far)
    return said


def words(found: Release, scene: MemoryScene) -> str:
    return release_words.sentence(found, now=scene.t)


@pytest.mark.parametrize("kind", ["discrete", "unified", "numa"])
def test_memory_that_comes_back_is_counted_down_and_then_told(kind: str) -> None:
    scene = MemoryScene(kind=kind)
    before = at_work(scene)
    scene.end(100)
    scene.lost = 33.0
    scene.for_(8, step=1)
    scene.lost = 0.1
    scene.for_(3, step=1)

    said = followed(before, scene)

    assert words(said[0], scene) == "33.0 GiB of GPU memory still to come."
    assert release_words.short(said[0]) == "33.0 GiB to come"
    assert words(said[-1], scene) == "Released 59.9 GiB in 8 s."
    assert said[-1].is_over


def test_memory_that_is_back_as_soon_as_somebody_looks() -> None:
    scene = MemoryScene(kind="discrete")
    before = at_work(scene)
    scene.end(100)

    (found,) = followed(before, scene.for_(1, step=1))

    assert words(found, scene) == "Released 60.0 GiB at once."


def test_an_engine_that_held_none_is_not_spoken_of() -> None:
    scene = MemoryScene(kind="discrete")
    before = at_work(scene, 0.0)
    scene.end(100)

    (found,) = followed(before, scene.for_(1, step=1), held=0)

    assert (words(found, scene), release_words.short(found)) == ("", "")


def test_a_process_that_keeps_it_is_named_and_what_it_gave_back_later_too() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    scene.process(101, 20.0, "VLLM::Worker_TP1", container=OURS, ppid=1)
    scene.end(100)
    scene.container("exited", scene.t)
    said = followed(before, scene.for_(40, step=5), held=80)

    assert words(said[0], scene).startswith("20.0 GiB of GPU memory still to come. Process 101")
    assert said[-1].outcome == "held"
    assert words(said[-1], scene) == (
        "20.0 GiB were not released. Process 101 (VLLM::Worker_TP1, 2 min old, of container "
        "aaaaaaaaaaaa) still holds 20.0 GiB."
    )
    assert not said[-1].is_over

    scene.end(101)
    said = followed(before, scene.for_(80, step=5), held=80)
    assert words(said[-1], scene) == (
        "Released 80.0 GiB in 40 s. Process 101 (VLLM::Worker_TP1) held memory until then."
    )


def test_what_a_process_holds_is_not_waited_for_as_long() -> None:
    scene = MemoryScene(kind="unified")
    before = at_work(scene)
    scene.process(101, 60.0, "/usr/bin/python3 -m sglang.launch_server", container=OURS)
    scene.end(100)

    said = followed(before, scene.for_(40))

    assert said[-1].outcome == "held"
    assert said[-1].holders[0].name == "python3"


def test_memory_that_nobody_holds_is_left_to_the_verdict_after_the_grace() -> None:
    scene = MemoryScene(kind="unified")
    before = at_work(scene)
    scene.end(100)
    scene.lost = 33.0
    said = followed(before, scene.for_(235))
    assert said[-1].outcome == "releasing"

    said = followed(before, scene.for_(20))

    assert said[-1].outcome == "missing"
    assert words(said[-1], scene) == "33.0 GiB have not come back, and no process holds them."


def test_the_grace_is_longer_while_memory_still_comes() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    scene.end(100)
    for left in (50, 45, 40, 35, 30, 25, 20, 15, 10, 5, 0):
        scene.lost = left
        scene.for_(10)

    said = followed(before, scene)

    assert words(said[-1], scene) == "Released 60.0 GiB in 2 min."


def test_the_memory_of_another_program_is_not_waited_for() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    scene.end(100)
    scene.process(200, 40.0, "python3", container="b" * 64)

    said = followed(before, scene.for_(3, step=1))

    assert words(said[-1], scene) == "Released 60.0 GiB at once."


def test_on_shared_memory_another_program_makes_the_figure_uncertain() -> None:
    scene = MemoryScene(kind="unified")
    before = at_work(scene)
    scene.end(100)
    scene.process(200, 40.0, "python3", container="b" * 64)
    scene.lost = 6.0  # its own, perhaps: the driver does not count all that it takes

    said = followed(before, scene.for_(260))

    assert said[-1].outcome == "unsure"
    assert words(said[-1], scene) == (
        "Whether its memory came back is not known: other programs on the same memory have "
        "come, gone or grown."
    )


def test_what_is_back_beside_another_program_is_told_without_a_figure() -> None:
    scene = MemoryScene(kind="unified")
    before = at_work(scene)
    scene.end(100)
    scene.process(200, 40.0, "python3", container="b" * 64)

    said = followed(before, scene.for_(3, step=1))

    assert words(said[-1], scene) == "No more GPU memory is in use than before its start."


def test_a_program_whose_memory_the_driver_does_not_tell_is_not_blamed() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    scene.end(100)
    scene.process(200, None, "python3", container="b" * 64)
    scene.lost = 10

    said = followed(before, scene.for_(60))

    assert said[-1].outcome == "unsure"
    assert "does not report how much another program" in words(said[-1], scene)


def test_hidden_processes_leave_only_the_whole_to_be_told() -> None:
    scene = MemoryScene(kind="discrete", total=96, sees=False)
    before = at_work(scene)
    scene.end(100)

    (found,) = followed(before, scene.for_(1, step=1))
    assert words(found, scene) == "No more GPU memory is in use than before its start."

    scene = MemoryScene(kind="discrete", total=96, sees=False, lost=0)
    before = at_work(scene)
    scene.end(100)
    scene.lost = 20
    assert "cannot be seen" in words(followed(before, scene.for_(60))[-1], scene)


def test_a_driver_that_lists_no_processes_proves_no_loss() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    scene.end(100)
    scene.lost = 20
    scene.for_(60)
    for each in scene.made:
        each["gpus"][0]["processes"] = None

    said = followed(before, scene)[-1]

    assert said.outcome == "unsure"
    assert "does not list the processes" in words(said, scene)


def test_shared_memory_that_is_left_is_named_where_it_is_the_gpus() -> None:
    scene = MemoryScene(kind="unified")
    before = at_work(scene)
    scene.end(100)
    scene.shm = [{"path": "/dev/shm/psm_1", "bytes": 18 * GIB, "mapped": False}]

    said = followed(before, scene.for_(260))

    assert words(said[-1], scene) == (
        "18.0 GiB of shared memory remain that no process uses: /dev/shm/psm_1."
    )


def test_a_collector_that_tells_nothing_proves_nothing() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    scene.end(100)
    scene.is_well = False

    said = followed(before, scene.for_(250))

    assert said[0].outcome == ""
    assert "the collector reported nothing" in words(said[-1], scene)


def test_a_restart_of_the_box_ends_the_question() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    scene.end(100)
    scene.boot = "two"

    (found,) = followed(before, scene.for_(1, step=1))

    assert (found.outcome, found.is_over, words(found, scene)) == ("boot", True, "")


def test_an_end_that_nobody_saw_coming_is_counted_from_the_first_look() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    scene.end(100)
    scene.lost = 12
    scene.for_(4, step=1)
    scene.lost = 0

    said = followed(before, scene.for_(2, step=1), held=None)

    assert words(said[-1], scene) == "Released 12.0 GiB in 4 s."


def test_a_worker_left_to_the_first_process_is_the_engines_if_it_began_in_its_time() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    began = scene.t
    scene.t += 300
    scene.process(101, 20.0, "sglang::scheduler_TP0", container=None, ppid=1, start=began + 50)
    scene.process(102, 9.0, "sglang::scheduler_TP0", container=None, ppid=1, start=began - 900)
    scene.end(100)

    said = followed(before, scene.for_(60), began=began)

    assert [each.pid for each in said[-1].holders] == [101]


def test_memory_of_an_earlier_engine_that_still_comes_back_is_none_of_this_ones() -> None:
    scene = MemoryScene(kind="unified")
    earlier = release.measure_before(scene.snapshot(), "all", now=scene.t)
    scene.lost = 60.0
    now = release.measure_before(scene.snapshot(), "all", now=scene.t)
    assert earlier is not None
    assert now is not None

    assert release.lower(now, earlier)["pools"]["GPU-1"]["unheld"] == int(0.5 * GIB)
    assert release.lower(now, {**earlier, "boot": "zero"}) == now


def test_an_old_or_empty_sample_is_no_measure() -> None:
    scene = MemoryScene()
    sample = scene.snapshot()

    assert release.measure_before(None, "all", now=scene.t) is None
    assert release.measure_before(sample, "none", now=scene.t) is None
    assert release.measure_before(sample, "all", now=scene.t + 120) is None
    assert release.measure_before({**sample, "gpus": []}, "all", now=scene.t) is None
    assert release.measure_before({**sample, "stale_s": 7.0}, "all", now=scene.t) is None


def test_a_process_that_only_the_driver_still_knows_is_the_engines_if_it_was() -> None:
    scene = MemoryScene(kind="discrete", total=96)
    before = at_work(scene)
    del scene.known[100]
    (snapshot,) = scene.for_(1, step=1)

    ours = release.look(before, snapshot, OURS, ended=scene.t, pids={100})
    nobodys = release.look(before, snapshot, OURS, ended=scene.t)

    assert ours is not None
    assert nobodys is not None
    assert [each.pid for each in ours.holders] == [100]
    assert (ours.size, nobodys.size) == (60 * GIB, 0)
