"""Docker Engine is restarted while servers start, serve and talk."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from servers.models import Run
from servers.models.runs.run import RunState
from tests import docker_engine
from tests.chaos.place import ChaosSite
from tests.docker_engine import RESTARTED, PrivateDockerEngine

pytestmark = [pytest.mark.docker, pytest.mark.chaos, pytest.mark.takes(60)]

TALKS = """
import time
for n in range(4000):
    print("line", n, flush=True)
    time.sleep(0.002)
"""


@pytest.fixture(scope="module")
def leased() -> Iterator[None]:
    with docker_engine.lease(RESTARTED):
        yield


@pytest.fixture
def engine(leased: None, live_restore: bool) -> PrivateDockerEngine:
    engine = replace(RESTARTED, live_restore=live_restore)
    engine.end_dockerd(signal.SIGTERM)
    engine.start_dockerd()
    return engine


@pytest.fixture
def docker_host(engine: PrivateDockerEngine) -> str:
    return engine.host


@pytest.mark.parametrize(
    ("live_restore", "how"),
    [(False, signal.SIGTERM), (False, signal.SIGKILL), (True, signal.SIGKILL)],
)
def test_runs_are_what_docker_says_afterwards(
    place: ChaosSite, engine: PrivateDockerEngine, live_restore: bool, how: signal.Signals
) -> None:
    place.watcher()
    slow = {"ENGINE_SECONDS": "600"}
    serves = place.start(place.server("serves"), nudged=False)
    loads = place.start(place.server("loads", env=slow), nudged=False)
    talks = place.start(place.server("talks", entrypoint=("python3", "-c", TALKS)), nudged=False)
    place.waits_for_state(serves, RunState.READY)
    place.waits_for_state(loads, RunState.STARTING)
    place.waits_for_more_than(100, talks)
    before = {run.pk: run.container_id for run in (serves, loads)}

    engine.end_dockerd(how)
    begun = place.start(place.server("begun"), nudged=False)
    place.waits_for("the start waits for Docker", lambda: place.status_message(begun) != "")
    assert "Docker Engine does not answer on this box." in begun.status_message
    engine.start_dockerd()

    place.waits_for_state(begun, RunState.READY)
    assert begun.status_message == ""
    if live_restore:
        for run, state in ((serves, RunState.READY), (loads, RunState.STARTING)):
            run.refresh_from_db()
            assert (run.state, run.container_id) == (state, before[run.pk])
    else:
        # Docker stops them as if somebody had asked, and remembers nothing of it afterwards.
        for run in (serves, loads):
            place.waits_for_state(run, RunState.STOPPED, RunState.FAILED)
            place.waits_for("it is said", partial(is_unknown, run))
    place.waits_until_whole(talks)
    assert place.lines(talks) == place.dockers_lines(talks.container_id)
    assert len(place.docker.list_ours()) == 4


def is_unknown(run: Run) -> bool:
    run.refresh_from_db()
    return "not known" in run.failure or "not known" in run.status_message


@pytest.mark.parametrize("live_restore", [False])
def test_docker_goes_away_while_it_makes_a_container(
    place: ChaosSite, engine: PrivateDockerEngine
) -> None:
    """Its answer is lost, and nobody knows whether there is a container."""
    place.watcher()
    # Before its first start a watcher tries what Docker takes from containers.
    first = place.start(place.server("first"), nudged=False)
    place.waits_for_state(first, RunState.READY)
    place.proxy.stop_at(
        ("POST /containers/create", "after"), lambda: engine.end_dockerd(signal.SIGKILL)
    )
    run = place.start(place.server("begun"), nudged=False)
    place.waits_for("the start waits for Docker", lambda: place.status_message(run) != "")
    assert run.state == RunState.CREATING

    engine.start_dockerd()

    place.waits_for_state(run, RunState.READY)
    first.refresh_from_db()
    ours = {each.id for each in place.docker.list_ours()}
    assert ours == {run.container_id, first.container_id}
