"""What nobody can know yet is not claimed: Docker is away, or somebody else is at it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import docker as library
import pytest
import redis
from django.utils import timezone

from servers import lifecycle
from servers.host.docker.containers import (
    IDENTITY,
    Container,
    ContainerError,
    DockerContainers,
    Spec,
)
from servers.lifecycle.runs import creation, gpu_conflicts
from servers.lifecycle.runs.creation import lock_creation
from servers.models import Run
from servers.models.runs.run import ManagedRun, ManagedServer, RunState
from tests import factories
from tests.base_images import BASE, ENGINE
from tests.chaos.docker_proxy import DockerProxy

pytestmark = [pytest.mark.docker, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _worker(
    asking: DockerContainers, own_redis: redis.Redis, settings: Any, tmp_path: Path
) -> None:
    settings.DATA = tmp_path
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.BOX_FILE.write_text("")


@pytest.fixture
def server() -> ManagedServer:
    slow = {"ENGINE_SECONDS": "600"}
    return factories.server(factories.box(home="/home/ada"), image=ENGINE, gpus="none", env=slow)


@pytest.fixture
def away(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asking: DockerContainers
) -> Iterator[None]:
    with (
        DockerProxy(tmp_path / "away.sock", f"unix://{tmp_path}/none.sock") as proxy,
        closing(DockerContainers(asking.install, proxy.host)) as gone,
        monkeypatch.context() as patched,
    ):
        patched.setattr(creation, "docker", lambda: gone)
        yield


def asked_for(server: ManagedServer) -> ManagedRun:
    run = lifecycle.start(server, by=factories.person())
    assert run is not None
    return run


def advance(run: ManagedRun) -> ManagedRun:
    run.refresh_from_db()
    lifecycle.advance(run)
    run.refresh_from_db()
    return run


def test_a_start_waits_for_docker_and_not_for_ever(server: ManagedServer, away: None) -> None:
    run = advance(asked_for(server))
    assert run.state == RunState.QUEUED
    assert run.status_message.endswith("Then the start goes on.")

    long_ago = timezone.now() - gpu_conflicts.PATIENCE - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(moved_at=long_ago)
    run = advance(run)

    assert run.state == RunState.FAILED
    assert run.failure.startswith("Docker Engine does not answer on this box.")
    assert run.status_message == ""


def test_a_stop_in_the_middle_waits_for_docker_too(server: ManagedServer, away: None) -> None:
    run = asked_for(server)
    Run.objects.filter(pk=run.pk).update(state=RunState.CREATING)
    lifecycle.stop(run, by=factories.person())

    assert advance(run).state == RunState.CREATING


def test_nobody_takes_over_from_a_maker_that_lives(server: ManagedServer) -> None:
    run = asked_for(server)
    long_ago = timezone.now() - timedelta(hours=1)
    Run.objects.filter(pk=run.pk).update(state=RunState.CREATING, moved_at=long_ago)

    with lock_creation(run) as is_ours:
        assert is_ours
        assert advance(run).state == RunState.CREATING

    assert advance(run).state == RunState.STARTING


def test_many_who_make_one_container_at_once_make_one(asking: DockerContainers) -> None:
    labels = dict.fromkeys(IDENTITY, "1") | {"inferdash.install": asking.install}
    name = f"inferdash-{asking.install[:8]}-1"
    spec = Spec(image=BASE, name=name, labels=labels, entrypoint=("sleep", "60"), network="none")
    gate = threading.Barrier(8)
    ends: list[Container | ContainerError] = []

    def make() -> None:
        gate.wait()
        try:
            ends.append(asking.run(spec))
        except ContainerError as error:
            ends.append(error)
        asking.close()

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    made = asking.list_ours()
    assert len(made) == 1
    assert {end.id for end in ends if isinstance(end, Container)} == {made[0].id}
    assert {end.kind for end in ends if isinstance(end, ContainerError)} <= {"name_reserved"}


def test_a_renamed_container_is_found_by_whoever_goes_on(
    server: ManagedServer, asking: DockerContainers
) -> None:
    run = advance(asked_for(server))
    by_hand(asking, lambda hands: hands.rename(run.container_id, f"mine-{asking.install[:8]}"))
    Run.objects.filter(pk=run.pk).update(state=RunState.CREATING, container_id="")

    again = advance(run)

    assert again.state == RunState.STARTING
    assert [each.id for each in asking.list_ours()] == [again.container_id]


def test_the_container_of_an_earlier_run_is_not_taken_up(
    server: ManagedServer, asking: DockerContainers
) -> None:
    earlier = advance(asked_for(server))
    asking.signal(earlier.container_id, "SIGKILL")
    # Its log ends before Docker has given its port back.
    by_hand(asking, lambda hands: hands.wait(earlier.container_id))
    lifecycle.observe(earlier)
    assert earlier.port is not None
    with socket.create_server(("127.0.0.1", earlier.port)):
        later = advance(asked_for(server))

    by_hand(asking, lambda hands: hands.start(earlier.container_id))
    lifecycle.take_up(server.box)

    earlier.refresh_from_db()
    later.refresh_from_db()
    assert (earlier.state, later.state) == (RunState.STOPPED, RunState.STARTING)
    found = asking.inspect(earlier.container_id)
    assert found is not None
    assert found.state == "running"


def by_hand(asking: DockerContainers, do: Callable[[library.APIClient], object]) -> None:
    with closing(library.APIClient(asking.host, version="auto")) as hands:
        do(hands)
