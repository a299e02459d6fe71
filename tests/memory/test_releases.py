"""What came of a run's memory is kept on it, whatever watcher looks, and told on its pages."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.lifecycle.memory import describe_release, measure_before, read_release
from servers.lifecycle.runs import creation
from servers.models import Box, Run, Server
from servers.models.runs.run import RunState
from servers.watcher.memory.monitor import MemoryMonitor, ReleaseMonitor
from tests import factories
from tests.memory.scenes import GIB, OURS, MemoryScene, crashed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def box() -> Box:
    return factories.box("spark-1")


@pytest.fixture
def server(box: Box) -> Server:
    return factories.server(box, "coder")


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene(kind="discrete", total=96.0, t=timezone.now().timestamp())


def at_work(server: Server, scene: MemoryScene, gib: float = 60.0) -> Run:
    """A run that began when nobody was on the card, and is ready now."""
    run = factories.run(server, container_id=OURS, gpus="all")
    before = measure_before(run, scene.snapshot(), None)
    assert before is not None
    Run.objects.filter(pk=run.pk).write(start__memory_before=before)
    scene.container("running")
    scene.process(100, gib, container=OURS)
    return Run.objects.get(pk=run.pk)


def ends(run: Run, scene: MemoryScene, **values: Any) -> None:
    scene.end(100)
    ended = datetime.fromtimestamp(scene.t, UTC)
    Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED, ended_at=ended, **values)


def words(run: Run) -> str:
    return describe_release(Run.objects.get(pk=run.pk))


def seen(watcher: ReleaseMonitor, scene: MemoryScene, seconds: int = 1) -> None:
    scene.made.clear()
    for snapshot in scene.for_(seconds, step=1):
        watcher.see(snapshot)


def test_what_came_back_stays_on_the_run(box: Box, server: Server, scene: MemoryScene) -> None:
    watcher = ReleaseMonitor(box)
    run = at_work(server, scene)
    seen(watcher, scene, 5)
    assert Run.objects.get(pk=run.pk).health.memory_after == {}

    ends(run, scene)
    scene.lost = 20.0
    seen(watcher, scene, 4)
    assert words(run) == "20.0 GiB of GPU memory still to come."
    scene.lost = 0.0
    seen(watcher, scene, 2)

    run = Run.objects.get(pk=run.pk)
    assert describe_release(run) == "Released 60.0 GiB in 4 s."
    assert run.released_at is not None
    scene.lost = 50.0
    seen(watcher, scene, 2)
    assert words(run) == "Released 60.0 GiB in 4 s."


def test_another_watcher_goes_on_where_one_was_ended(
    box: Box, server: Server, scene: MemoryScene
) -> None:
    watcher = ReleaseMonitor(box)
    run = at_work(server, scene)
    seen(watcher, scene, 3)
    ends(run, scene)
    scene.lost = 20.0
    seen(watcher, scene, 3)

    later = ReleaseMonitor(box)
    scene.lost = 0.0
    seen(later, scene, 1)

    assert words(run) == "Released 60.0 GiB in 3 s."


def test_a_watcher_that_comes_after_the_end_claims_no_more_than_it_saw(
    box: Box, server: Server, scene: MemoryScene
) -> None:
    run = at_work(server, scene)
    ends(run, scene)

    seen(ReleaseMonitor(box), scene, 1)

    run = Run.objects.get(pk=run.pk)
    assert (read_release(run).outcome, describe_release(run)) == ("back", "")


def test_a_container_that_was_removed_meanwhile_is_still_known_by_its_number(
    box: Box, server: Server, scene: MemoryScene
) -> None:
    watcher = ReleaseMonitor(box)
    run = at_work(server, scene)
    seen(watcher, scene, 2)
    scene.process(101, 9.0, "VLLM::Worker_TP1", container=OURS, ppid=1)
    ends(run, scene, container_id="", container_was=OURS)

    seen(watcher, scene, 1)

    assert "Process 101 (VLLM::Worker_TP1" in words(run)


def test_a_run_without_a_measure_is_not_spoken_of(
    box: Box, server: Server, scene: MemoryScene
) -> None:
    run = factories.run(server, RunState.STOPPED)

    seen(ReleaseMonitor(box), scene, 3)

    assert (words(run), Run.objects.get(pk=run.pk).released_at) == ("", None)


def test_a_start_while_memory_still_comes_back_counts_from_before_that(
    box: Box, server: Server, scene: MemoryScene
) -> None:
    watcher = ReleaseMonitor(box)
    run = at_work(server, scene)
    ends(run, scene)
    scene.lost = 33.0
    seen(watcher, scene, 1)
    successor = factories.run(factories.server(box, "next"), RunState.CREATING, gpus="all")

    before = measure_before(successor, scene.snapshot(), None)

    assert before is not None
    assert before["pools"]["GPU-1"]["unheld"] == int(0.5 * GIB)


def test_a_sample_from_after_the_start_is_no_measure_of_before(
    server: Server, scene: MemoryScene
) -> None:
    run = factories.run(server, gpus="all")
    started = timezone.now() - timedelta(seconds=5)

    assert measure_before(run, scene.snapshot(), started) is None


def pages(run: Run) -> list[str]:
    client = factories.log_in(factories.person())
    found = []
    server = f"/servers/{run.server.slug}/"
    for path in ("/", server, f"{server}?run={run.pk}"):
        found.append(" ".join(client.get(path).content.decode().split()))
    return found


def test_pages_tell_it_while_it_lasts_and_afterwards(
    box: Box, server: Server, scene: MemoryScene
) -> None:
    watcher = ReleaseMonitor(box)
    run = at_work(server, scene)
    seen(watcher, scene, 2)
    ends(run, scene)
    scene.process(101, 20.0, "VLLM::Worker_TP1", container=OURS, ppid=1)
    seen(watcher, scene, 1)

    for page in pages(run):
        assert '<span class="badge working">releasing</span> 20.0 GiB of GPU memory' in page

    seen(watcher, scene, 40)
    factories.run(server, RunState.STOPPED, age=100)
    *_others, earlier = pages(run)
    runs = factories.log_in(factories.person()).get(f"/servers/{server.slug}/runs/")
    assert "20.0 GiB were not released. Process 101" in earlier
    assert "See spark-1" in earlier
    assert "memory 20.0 GiB not back</span>" in runs.content.decode()


def test_a_reclaim_is_told_to_the_judge_of_the_memory(box: Box) -> None:
    scene = crashed(MemoryScene(), lost=40.0).for_(900)
    memory = MemoryMonitor(box)
    for snapshot in scene:
        said = memory.judge(snapshot)
    assert said["verdicts"][0]["verdict"] == "reclaimable"

    memory.tell({"type": "reclaim", "level": 2})
    scene.made.clear()
    for snapshot in scene.for_(120):
        said = memory.judge(snapshot)

    assert said["verdicts"][0]["verdict"] == "leaked"


def test_the_number_of_a_removed_container_is_kept(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = factories.run(server, RunState.STOPPED, container_id="c" * 64)

    class Gone:
        def remove(self, container_id: str) -> None:
            assert container_id == "c" * 64

    monkeypatch.setattr(creation, "docker", Gone)
    creation.remove_container(run)

    run.refresh_from_db()
    assert (run.container_id, run.container_was) == ("", "c" * 64)
