"""The moves of a run, against Docker and Redis; the web's wishes and the worker's obedience."""

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connections
from django.utils import timezone

from servers import lifecycle
from servers.host.docker.containers import DockerContainers
from servers.models import Run
from servers.models.runs.run import ManagedServer, RunState
from tests import factories
from tests.lifecycle.starts import started

pytestmark = [pytest.mark.docker, pytest.mark.django_db(transaction=True)]


def test_a_start_makes_a_container_with_what_a_tag_cannot_say(
    server: Callable[..., ManagedServer], docker: DockerContainers
) -> None:
    run = started(server())

    assert run.state == RunState.STARTING
    container = docker.inspect(run.container_id)
    assert container is not None
    assert container.labels["inferdash.run"] == str(run.pk)
    assert container.name == f"inferdash-{docker.install[:8]}-{run.pk}"
    assert f"--name {container.name} " in run.start.docker_run
    assert f"inferdash.run={run.pk}" in run.start.docker_run
    assert run.image_id in run.start.docker_run
    assert run.image_id == container.image_id
    assert run.address == "127.0.0.1"
    assert run.port in settings.ENGINE_PORTS


def test_a_second_start_starts_nothing(server: Callable[..., ManagedServer]) -> None:
    one = server()
    started(one)

    assert lifecycle.start(one, by=factories.person()) is None
    assert one.runs.count() == 1


def test_worker_and_watcher_at_once_make_one_container(
    server: Callable[..., ManagedServer], docker: DockerContainers
) -> None:
    run = lifecycle.start(server(), by=factories.person())
    assert run is not None
    gate = threading.Barrier(4)

    def advance() -> None:
        mine = Run.objects.filter_managed().select_related("server__box", "version").get(pk=run.pk)
        gate.wait()
        lifecycle.advance(mine)
        connections.close_all()
        docker.close()

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    run.refresh_from_db()
    assert run.state == RunState.STARTING
    assert len(docker.list_ours()) == 1


def test_a_worker_that_died_while_creating_is_taken_over(
    server: Callable[..., ManagedServer], docker: DockerContainers
) -> None:
    run = lifecycle.start(server(), by=factories.person())
    assert run is not None
    long_ago = timezone.now() - timedelta(minutes=5)
    Run.objects.filter(pk=run.pk).update(state=RunState.CREATING, moved_at=long_ago)
    run.refresh_from_db()

    lifecycle.advance(run)

    run.refresh_from_db()
    assert run.state == RunState.STARTING
    assert len(docker.list_ours()) == 1
