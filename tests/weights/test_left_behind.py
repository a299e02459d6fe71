"""What engines have left on a box is found, told by whose it is, and taken away on demand."""

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from servers import lifecycle
from servers.host.docker.containers import DockerContainers, Spec
from servers.host.docker.throwaway import ContainerCommand, ask
from servers.judge.memory import orphans as judge
from servers.judge.memory.orphans import Orphan
from servers.lifecycle.jobs import actions
from servers.lifecycle.memory import look_for_orphans
from servers.lifecycle.runs import creation
from servers.models import AuditEntry, Box, Job, Run, Server
from servers.models.jobs import JobKind
from servers.models.runs.run import DesiredState, ManagedRun, ManagedServer, RunState
from tests import factories, jobs
from tests.base_images import ENGINE
from tests.orphans import has_ended, orphans

pytestmark = [
    pytest.mark.docker,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("own_redis", "worker"),
]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "PATIENCE", 0.0)


@pytest.fixture
def server(box: Box) -> ManagedServer:
    return factories.server(box, image=ENGINE, gpus="none", env={"ENGINE_SECONDS": "0"})


def started(server: ManagedServer) -> ManagedRun:
    run = lifecycle.start(server, by=factories.person())
    assert run is not None
    lifecycle.advance(run)
    return fresh(run)


def fresh(run: ManagedRun) -> ManagedRun:
    return Run.objects.filter_managed().select_related("server__box", "version").get(pk=run.pk)


def ended(run: ManagedRun, docker: DockerContainers) -> ManagedRun:
    docker.signal(run.container_id, "SIGKILL")
    for _line in docker.logs(run.container_id, follow=True):
        pass
    lifecycle.observe(run)
    Run.objects.filter(pk=run.pk).write(log__is_complete=True)
    return fresh(run)


@pytest.fixture
def orphan() -> Iterator[Callable[[str], int]]:
    with orphans() as make:
        yield make


def found(box: Box, kind: str = "") -> list[Orphan]:
    return [each for each in look_for_orphans(box, None) if each.kind == kind or not kind]


def wanted(box: Box, kind: JobKind, left: Orphan) -> Job:
    assert actions.ask(box, kind, by=factories.person(), left=left)
    jobs.obey(box)
    return Job.objects.latest("pk")


def of_container(box: Box, run: ManagedRun) -> list[Orphan]:
    """Not what tests beside this one leave on the same machine."""
    return [each for each in found(box, "process") if each.container == run.container_id]


def test_a_worker_that_outlived_its_container_is_found_and_ended(
    box: Box, server: ManagedServer, docker: DockerContainers, orphan: Callable[[str], int]
) -> None:
    run = started(server)
    pid = orphan(run.container_id)
    assert of_container(box, run) == [], "its container runs"
    run = ended(run, docker)

    (left,) = of_container(box, run)
    assert (left.pid, left.server, left.actions) == (pid, server.slug, ("kill",))
    assert left.container == run.container_id
    assert "Its container has ended" in left.why

    done = wanted(box, JobKind.KILL, left)
    assert done.state == "done", done.said
    assert "has ended after SIGTERM" in done.said
    assert has_ended(pid)
    assert of_container(box, run) == []
    said = list(
        AuditEntry.objects.filter(action__startswith="kill").order_by("pk").values_list("action")
    )
    assert said == [("kill",), ("kill done",)]


def test_it_is_known_as_ours_when_even_its_container_is_removed(
    box: Box, server: ManagedServer, docker: DockerContainers, orphan: Callable[[str], int]
) -> None:
    run = started(server)
    pid = orphan(run.container_id)
    run = ended(run, docker)
    creation.remove_container(run)

    (left,) = of_container(box, run)

    assert (left.pid, left.actions) == (pid, ("kill",))


def test_the_database_alone_makes_no_other_program_ours(
    box: Box, server: ManagedServer, docker_host: str
) -> None:
    """Whoever can write rows could name any container as one that we had."""
    other = DockerContainers("somebody-else", docker_host)
    theirs = other.run(
        Spec(
            image=ENGINE,
            name=f"not-ours-{os.getpid()}",
            entrypoint=("sleep",),
            command=("600",),
            labels={"inferdash.install": "somebody-else"},
        )
    )
    try:
        run = factories.run(server, RunState.FAILED, container_id=theirs.id)
        assert of_container(box, run) == [], "it runs"

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DockerContainers, "list_running", lambda self: [])
            assert of_container(box, run) == [], "its name is no worker's"
        assert run.container_id == theirs.id
    finally:
        other.remove(theirs.id)
        other.close()


def test_one_of_which_nothing_is_known_is_shown_and_not_touched(
    box: Box, orphan: Callable[[str], int]
) -> None:
    pid = orphan("e" * 64)

    (left,) = [each for each in found(box, "process") if each.pid == pid]
    done = wanted(box, JobKind.KILL, left)

    assert left.actions == ()
    assert (done.state, has_ended(pid)) == ("refused", False)
    assert done.command == f"ps -o pid,ppid,user,lstart,args -p {pid}"


def test_a_number_that_was_given_to_another_process_is_left_alone(
    box: Box, server: ManagedServer, docker: DockerContainers, orphan: Callable[[str], int]
) -> None:
    run = started(server)
    pid = orphan(run.container_id)
    ended(run, docker)
    (left,) = of_container(box, run)
    # What a page has shown, and the process that has the number now, began at two moments.
    shown = Orphan.from_json(left.to_json() | {"start": left.start - 1, "key": f"process-{pid}-1"})

    done = wanted(box, JobKind.KILL, shown)

    assert (done.state, has_ended(pid)) == ("refused", False)
    assert "Nothing was done" in done.said


def test_a_wish_that_nobody_heard_in_time_is_not_obeyed(
    box: Box, server: ManagedServer, docker: DockerContainers, orphan: Callable[[str], int]
) -> None:
    run = started(server)
    pid = orphan(run.container_id)
    ended(run, docker)
    (left,) = of_container(box, run)
    assert actions.ask(box, JobKind.KILL, by=factories.person(), left=left)
    assert not actions.ask(box, JobKind.KILL, by=factories.person(), left=left), "once is enough"
    Job.objects.update(asked_at=timezone.now() - timedelta(minutes=2))

    jobs.obey(box)

    assert "more than a minute ago" in Job.objects.get().said
    assert not has_ended(pid)


@pytest.fixture
def segment(tmp_path: Path, settings: Any) -> Path:
    """On a box with no process but this one: while one waits for a disk, all memory is in use."""
    settings.HOST_ROOT = tmp_path / "box"
    (settings.HOST_ROOT / "proc").mkdir(parents=True)
    (settings.HOST_ROOT / "proc" / str(os.getpid())).symlink_to("/proc/self")
    path: Path = settings.HOST_ROOT / "dev/shm/psm_1"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * (3 << 20))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return path


def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute later."""
    monkeypatch.setattr(judge, "YOUNG", -1.0)


def test_shared_memory_that_nobody_uses_is_found_and_deleted(
    box: Box, segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(box, "shm") == [], "it may just have been made"
    aged(monkeypatch)

    (left,) = found(box, "shm")
    assert left.files == (("/dev/shm/psm_1", segment.stat().st_ino),)
    done = wanted(box, JobKind.UNLINK, left)

    assert done.state == "done", done.said
    assert not segment.exists()


def test_shared_memory_that_somebody_uses_again_stays(
    box: Box, segment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged(monkeypatch)
    (left,) = found(box, "shm")

    with segment.open("rb"):
        done = wanted(box, JobKind.UNLINK, left)

    assert done.state == "refused"
    assert segment.exists()


def test_a_container_of_the_latest_run_is_nothing_left_behind(
    box: Box, server: ManagedServer, docker: DockerContainers
) -> None:
    run = started(server)
    assert found(box, "container") == []

    ended(run, docker)

    assert found(box, "container") == []


def test_a_container_of_an_earlier_run_is_removed_once_its_log_is_read(
    box: Box, server: ManagedServer, docker: DockerContainers
) -> None:
    run = ended(started(server), docker)
    later = factories.run(server, RunState.FAILED, container_id="")
    Run.objects.filter(pk=run.pk).write(log__is_complete=False)
    (left,) = found(box, "container")
    assert left.actions == ()
    Run.objects.filter(pk=run.pk).write(log__is_complete=True)

    (left,) = found(box, "container")
    done = wanted(box, JobKind.REMOVE, left)

    assert done.state == "done", done.said
    assert docker.inspect(run.container_id) is None
    assert fresh(run).container_was == run.container_id
    assert later.pk != run.pk


def forget(run: ManagedRun) -> None:
    """As a database that was restored from before the start."""
    Server.objects.update(run=None)
    Run.objects.filter(pk=run.pk).delete()


def test_a_container_that_no_run_knows_is_adopted_as_the_run_that_it_was(
    box: Box, server: ManagedServer, docker: DockerContainers
) -> None:
    run = started(server)
    forget(run)

    (left,) = found(box, "container")
    assert left.actions == ("adopt", "remove")
    assert left.is_running
    done = wanted(box, JobKind.ADOPT, left)

    assert done.state == "done", done.said
    adopted = Run.objects.filter_managed().select_related("server").get()
    assert (adopted.pk, adopted.state, adopted.container_id) == (
        run.pk, RunState.STARTING, run.container_id,
    )  # fmt: skip
    assert (adopted.address, adopted.port, adopted.served_name) == (
        run.address, run.port, run.served_name,
    )  # fmt: skip
    assert (adopted.version_id, adopted.created_at) == (run.version_id, run.created_at)
    assert adopted.server.run_id == adopted.pk
    assert found(box, "container") == []
    lifecycle.stop(fresh(adopted), by=None)
    lifecycle.advance(fresh(adopted))
    assert Run.objects.get().state in (RunState.STOPPING, RunState.STOPPED)


def test_a_run_that_ended_in_the_database_alone_is_taken_up_again(
    box: Box, server: ManagedServer
) -> None:
    run = started(server)
    Run.objects.filter(pk=run.pk).write(
        state=RunState.STOPPED,
        wanted=DesiredState.STOPPED,
        ended_at=timezone.now(),
        log__is_complete=True,
    )

    (left,) = found(box, "container")
    assert "by the database its run has ended" in left.why
    wanted(box, JobKind.ADOPT, left)

    run = fresh(run)
    assert (run.state, run.wanted, run.ended_at) == (RunState.STARTING, DesiredState.RUNNING, None)
    assert not run.log.is_complete


def test_a_server_that_runs_already_adopts_nothing(box: Box, server: ManagedServer) -> None:
    run = started(server)
    forget(run)
    factories.run(server, RunState.READY)

    (left,) = found(box, "container")

    assert left.actions == ("remove",)
    assert "another run" in left.why


def test_a_container_of_a_server_that_is_gone_can_only_be_removed(
    box: Box, server: ManagedServer, docker: DockerContainers
) -> None:
    run = started(server)
    forget(run)
    Server.objects.all().delete()

    (left,) = found(box, "container")
    assert left.actions == ("remove",)
    wanted(box, JobKind.REMOVE, left)

    assert docker.inspect(run.container_id) is None


def test_containers_of_others_and_throw_away_ones_are_none_of_it(
    box: Box, docker_host: str
) -> None:
    other = DockerContainers("somebody-else", docker_host)
    assert ask(other, ContainerCommand(image=ENGINE, words=("true",))).end == "ended"
    other.close()

    assert found(box, "container") == []
