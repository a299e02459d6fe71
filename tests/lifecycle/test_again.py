from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.models import Run
from servers.models.runs.run import DesiredState, ManagedRun, ManagedServer, RunState
from servers.state import store
from tests import factories
from tests.lifecycle.starts import started

pytestmark = [pytest.mark.docker, pytest.mark.django_db(transaction=True)]


def test_a_restart_is_followed_by_the_next_run(
    server: Callable[..., ManagedServer], ended: Callable[[ManagedRun], ManagedRun]
) -> None:
    one = server()
    first = started(one)
    lifecycle.restart(one, by=factories.person("ben"))
    first.refresh_from_db()
    lifecycle.advance(first)

    ended(first)

    one.refresh_from_db()
    assert one.run_id != first.pk
    assert one.run is not None
    assert one.run.state == RunState.STARTING
    assert str(one.run.started_by) == "ben"


def test_a_start_past_its_profiles_limit_is_stopped_and_has_failed(
    server: Callable[..., ManagedServer], ended: Callable[[ManagedRun], ManagedRun]
) -> None:
    run = started(server(ready_limit=1200, env={"ENGINE_SECONDS": "600"}))
    lifecycle.check_limit(run)
    assert run.wanted == DesiredState.RUNNING, "it has time"

    long_ago = timezone.now() - timedelta(minutes=21)
    Run.objects.filter(pk=run.pk).update(started_at=long_ago)
    run.refresh_from_db()
    lifecycle.advance(run)
    Run.objects.filter(pk=run.pk).update(kill_at=timezone.now())
    run.refresh_from_db()
    lifecycle.advance(run)

    run = ended(run)
    assert run.state == RunState.FAILED
    assert run.failure.startswith("It was not ready within 20m")


def test_a_start_may_take_for_ever_unless_its_profile_says_otherwise(
    server: Callable[..., ManagedServer],
) -> None:
    run = started(server(env={"ENGINE_SECONDS": "600"}))
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(days=1))
    run.refresh_from_db()

    lifecycle.advance(run)

    run.refresh_from_db()
    assert (run.state, run.wanted) == (RunState.STARTING, DesiredState.RUNNING)


def test_a_running_server_cannot_be_removed(server: Callable[..., ManagedServer]) -> None:
    one = server()
    started(one)

    assert not lifecycle.remove(one, by=factories.person())


def test_removing_clears_the_container(
    server: Callable[..., ManagedServer],
    docker: DockerContainers,
    ended: Callable[[ManagedRun], ManagedRun],
) -> None:
    one = server(env={"ENGINE_SCRIPT": "crash"})
    ended(started(one))

    assert lifecycle.remove(one, by=factories.person())
    lifecycle.clear(one.box)
    assert len(docker.list_ours()) == 1, "its log was not read to the end yet"

    one.runs.write(log__is_complete=True)
    lifecycle.clear(one.box)
    assert docker.list_ours() == []
    assert one.runs.count() == 1

    lifecycle.restore(one, by=factories.person())
    one.refresh_from_db()
    assert one.removed_at is None


def test_no_message_is_needed_while_redis_is_away(
    server: Callable[..., ManagedServer],
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    tmp_path: Path,
) -> None:
    one = server()
    gone = store.connect(f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr("servers.state.store.client", gone)

    assert started(one).state == RunState.STARTING
