import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.lifecycle.runs import creation
from servers.models import Run
from servers.models.runs.run import DesiredState, ManagedRun, ManagedServer, RunState
from tests import factories
from tests.lifecycle.starts import started
from tests.waiting import wait_until

pytestmark = [pytest.mark.docker, pytest.mark.django_db(transaction=True)]


def test_a_stop_before_the_container_makes_none(
    server: Callable[..., ManagedServer], docker: DockerContainers
) -> None:
    run = lifecycle.start(server(), by=factories.person())
    assert run is not None
    lifecycle.stop(run, by=factories.person("ben"))
    run.refresh_from_db()

    lifecycle.advance(run)

    run.refresh_from_db()
    assert run.state == RunState.STOPPED
    assert docker.list_ours() == []


def test_a_stop_sends_sigterm_and_says_how_it_ended(
    server: Callable[..., ManagedServer], ended: Callable[[ManagedRun], ManagedRun]
) -> None:
    run = started(server())
    lifecycle.stop(run, by=factories.person())
    run.refresh_from_db()

    lifecycle.advance(run)

    run.refresh_from_db()
    assert run.state in (RunState.STOPPING, RunState.STOPPED)
    assert ended(run).state == RunState.STOPPED
    assert run.failure == ""
    assert run.time_to_stop is not None


def test_a_stop_while_somebody_looks_at_the_run_is_no_failure(
    server: Callable[..., ManagedServer], ended: Callable[[ManagedRun], ManagedRun]
) -> None:
    run = started(server())
    before = Run.objects.filter_managed().get(pk=run.pk)
    lifecycle.stop(run, by=factories.person())
    lifecycle.advance(Run.objects.filter_managed().get(pk=run.pk))
    wait_until(lambda: _has_ended(run), "the engine ends")

    lifecycle.observe(before)

    run.refresh_from_db()
    assert run.state == RunState.STOPPED
    assert run.failure == ""


def _has_ended(run: ManagedRun) -> bool:
    found = creation.docker().inspect(run.container_id)
    return found is not None and found.has_ended


def test_a_drained_stop_waits_for_the_requests(server: Callable[..., ManagedServer]) -> None:
    run = started(server())
    Run.objects.filter(pk=run.pk).write(state=RunState.READY, health__requests_running=2)
    lifecycle.stop(run, by=factories.person(), after_requests=True)
    run.refresh_from_db()

    lifecycle.advance(run)
    run.refresh_from_db()
    assert run.state == RunState.READY

    Run.objects.filter(pk=run.pk).write(health__requests_running=0)
    run.refresh_from_db()
    lifecycle.advance(run)
    run.refresh_from_db()
    assert run.state in (RunState.STOPPING, RunState.STOPPED)


def test_stop_now_overrides_a_drained_stop_and_not_the_reverse(
    server: Callable[..., ManagedServer],
) -> None:
    run = started(server())
    by = factories.person()

    assert lifecycle.stop(run, by=by, after_requests=True)
    assert lifecycle.stop(run, by=by)
    assert not lifecycle.stop(run, by=by, after_requests=True)

    run.refresh_from_db()
    assert run.wanted == DesiredState.STOPPED


def test_an_end_that_nobody_wanted_is_a_failure_with_its_last_lines(
    server: Callable[..., ManagedServer], ended: Callable[[ManagedRun], ManagedRun]
) -> None:
    run = ended(started(server(env={"ENGINE_SCRIPT": "crash"})))

    assert run.state == RunState.FAILED
    assert run.exit_code == 1
    assert "before it was ready" in run.failure
    assert run.log.last_lines


def test_a_container_that_somebody_removed_is_told(
    server: Callable[..., ManagedServer], docker: DockerContainers
) -> None:
    run = started(server())
    docker.remove(run.container_id)

    lifecycle.observe(run)

    run.refresh_from_db()
    assert (run.state, run.failure) == (RunState.STOPPED, "")
    assert "removed outside inferdash" in run.status_message


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_nothing_is_claimed_while_docker_is_away(
    server: Callable[..., ManagedServer],
    docker: DockerContainers,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    run = started(server())
    away = DockerContainers(docker.install, f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(creation, "docker", lambda: away)

    lifecycle.observe(run)

    run.refresh_from_db()
    assert run.state == RunState.STARTING
    # docker-py leaves the socket of a failed connection to the collector.
    gc.collect()
