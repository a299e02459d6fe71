"""The worker or the watcher is killed at every step of a start: one container, or none."""

import pytest

from servers.models import Run
from servers.models.runs.run import RunState
from tests.chaos.docker_proxy import Step
from tests.chaos.place import ChaosSite

pytestmark = [pytest.mark.docker, pytest.mark.chaos, pytest.mark.takes(180)]

# A watcher asks these all day, start or no start.
ALWAYS = {"GET /version", "GET /info", "GET /events", "GET /volumes"}


def steps_of(calls: list[str]) -> list[Step]:
    """Where a kill may leave something else behind; a look that was answered changes nothing."""
    return [
        (call, moment)
        for call in dict.fromkeys(calls)
        for moment in ("before", "after")
        if moment == "before" or not call.startswith("GET") or call.endswith("/logs")
    ]


def check_one_and_its_log(place: ChaosSite, run: Run, at: object) -> None:
    """What must be true whoever was killed when: the run is ready, once, with all it said."""
    found = place.containers(run)
    assert [each.state for each in found] == ["running"], at
    assert run.container_id == found[0].id, at
    place.docker.signal(run.container_id, "SIGKILL")
    place.waits_for_state(run, RunState.STOPPED)
    place.waits_until_whole(run)
    assert place.lines(run) == place.dockers_lines(run.container_id) != [], at
    place.docker.remove(run.container_id)


def test_the_worker_is_killed_at_any_step_of_a_start(place: ChaosSite) -> None:
    place.worker()
    place.waits_until_tried()
    place.proxy.calls.clear()
    undisturbed = place.start(place.server("undisturbed"))
    place.waits_for_state(undisturbed, RunState.STARTING)
    steps = steps_of(place.proxy.calls)
    assert ("POST /containers/create", "after") in steps
    assert ("POST /containers/ID/start", "before") in steps
    place.end()
    place.forget(undisturbed)

    worker = place.worker()
    for number, at in enumerate(steps):
        killed = worker
        place.waits_until_tried()
        place.proxy.stop_at(at, lambda killed=killed: place.kill(killed))  # type: ignore[misc]
        run = place.start(place.server(f"killed-{number}"))
        place.waits_for_end(killed)
        worker = place.worker()  # comes up while the watcher does its work
        watcher = place.watcher()
        took = place.waits_for_state(run, RunState.READY)
        print(f"{at}: ready {took:.1f} s after the watcher's start")
        check_one_and_its_log(place, run, at)
        place.kill(watcher)


def test_the_watcher_is_killed_at_any_step_of_a_start(place: ChaosSite) -> None:
    """There is no worker at all, or the nudge was lost."""
    place.watcher()
    undisturbed = place.start(place.server("undisturbed"), nudged=False)
    place.waits_for_state(undisturbed, RunState.READY)
    steps = [step for step in steps_of(place.proxy.calls) if step[0] not in ALWAYS]
    assert ("POST /containers/create", "after") in steps
    assert ("GET /containers/ID/logs", "after") in steps
    place.end()
    place.forget(undisturbed)

    for number, at in enumerate(steps):
        run = place.start(place.server(f"killed-{number}"), nudged=False)
        killed = place.watcher_killed_at(at)
        place.waits_for_end(killed)
        watcher = place.watcher()
        took = place.waits_for_state(run, RunState.READY)
        print(f"{at}: ready {took:.1f} s after the watcher's start")
        check_one_and_its_log(place, run, at)
        place.kill(watcher)


@pytest.mark.parametrize("state", [RunState.CREATING, RunState.READY])
def test_both_are_killed_as_soon_as_a_state_is_seen(place: ChaosSite, state: RunState) -> None:
    worker, watcher = place.worker(), place.watcher()
    run = place.start(place.server("killed"))
    place.waits_for_state(run, state, RunState.READY, every=0.001)
    place.kill(worker)
    place.kill(watcher)

    place.watcher()

    place.waits_for_state(run, RunState.READY)
    check_one_and_its_log(place, run, state)
