"""What people do to containers with Docker itself is seen, also by a watcher that hears no events."""

from collections.abc import Iterator

import docker
import pytest

from servers.lifecycle.runs import starts
from servers.models import Run
from servers.models.runs.run import RunState
from tests.chaos.place import ChaosSite
from tests.dying import let_die
from tests.ports import free_port

pytestmark = [pytest.mark.docker, pytest.mark.chaos, pytest.mark.takes(60)]


@pytest.fixture
def hands(place: ChaosSite) -> Iterator[docker.APIClient]:
    """Docker as a person has it who knows nothing of inferdash."""
    client = docker.APIClient(place.docker.host, version="auto", timeout=60)
    yield client
    client.close()


@pytest.mark.parametrize("hears", [True, False])
def test_states_follow_what_people_do(
    place: ChaosSite, hands: docker.APIClient, hears: bool
) -> None:
    place.proxy.is_deaf = not hears
    place.watcher()
    names = ("killed", "stopped", "removed", "renamed", "paused", "started")
    # Of its own, so that nobody has it when a container starts again.
    runs = {
        name: place.start(place.server(name, host_port=free_port()), nudged=False) for name in names
    }
    for run in runs.values():
        place.waits_for_state(run, RunState.READY)
    hands.kill(runs["started"].container_id)
    place.waits_for_state(runs["started"], RunState.STOPPED)
    place.waits_until_whole(runs["started"])
    before = place.lines(runs["started"])

    hands.kill(runs["killed"].container_id)
    hands.stop(runs["stopped"].container_id)
    hands.remove_container(runs["removed"].container_id, force=True)
    hands.rename(runs["renamed"].container_id, f"mine-{place.docker.install[:8]}")
    hands.pause(runs["paused"].container_id)
    hands.start(runs["started"].container_id)

    for name in ("killed", "stopped", "removed"):
        place.waits_for_state(runs[name], RunState.STOPPED)
        assert runs[name].failure == "", "whose wish it was, that of a watched one, too"
    for name in ("killed", "stopped"):
        assert runs[name].status_message.startswith(
            "Somebody has stopped its container outside inferdash"
        )
    assert "137" in runs["killed"].status_message
    assert "outside inferdash" in runs["removed"].status_message
    place.waits_for("the pause is told", lambda: says(runs["paused"], "is paused"))
    place.waits_for_state(runs["started"], RunState.READY)
    assert "outside inferdash" in runs["started"].status_message
    place.waits_for_more_than(len(before), runs["started"])
    again = runs["started"]
    place.waits_for(
        "all that it said is read",
        lambda: place.lines(again) == place.dockers_lines(again.container_id),
    )

    hands.unpause(runs["paused"].container_id)
    hands.kill(runs["renamed"].container_id)
    place.waits_for("the pause is over", lambda: says(runs["paused"], ""))
    place.waits_for_state(runs["renamed"], RunState.STOPPED)
    assert runs["paused"].state == RunState.READY


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_what_people_do_while_inferdash_is_away_is_judged_alike(
    place: ChaosSite, hands: docker.APIClient, how: str
) -> None:
    watcher = place.watcher()
    run = place.start(place.server("away"), nudged=False)
    place.waits_for_state(run, RunState.READY)
    place.kill(watcher)
    getattr(hands, how)(run.container_id)

    place.watcher()

    place.waits_for_state(run, RunState.STOPPED)
    assert run.failure == ""
    assert run.status_message.startswith("Somebody has stopped its container outside inferdash")
    assert run.exit_code in (0, 137, 143)
    assert run.restart_at is None


def test_an_engine_that_ends_by_itself_has_died_also_while_inferdash_is_away(
    place: ChaosSite,
) -> None:
    watcher = place.watcher()
    run = place.start(place.server("dies", host_port=free_port()), nudged=False)
    place.waits_for_state(run, RunState.READY)
    place.kill(watcher)
    endpoint = starts.find_endpoint(run)
    assert endpoint
    let_die(endpoint.address, endpoint.port)

    place.watcher()

    place.waits_for_state(run, RunState.FAILED)
    assert "ended by itself while it was serving, with exit code 3." in run.failure


def says(run: Run, words: str) -> bool:
    run.refresh_from_db()
    return words in run.status_message if words else not run.status_message


def test_a_paused_server_can_be_stopped(place: ChaosSite, hands: docker.APIClient) -> None:
    place.watcher()
    run = place.start(place.server("paused"), nudged=False)
    place.waits_for_state(run, RunState.READY)
    hands.pause(run.container_id)

    place.stop(run)

    place.waits_for_state(run, RunState.STOPPED)


def test_no_line_is_lost_or_doubled_when_every_connection_to_docker_is_cut(
    place: ChaosSite,
) -> None:
    program = (
        "import time\n"
        "for n in range(8000):\n"
        "    print('line', n, flush=True)\n"
        "    if n % 40 == 0: time.sleep(0.02)"
    )
    watcher = place.watcher()
    run = place.start(place.server("talks", entrypoint=("python3", "-c", program)), nudged=False)
    for so_far in (500, 2500, 4500):
        place.waits_for_more_than(so_far, run)
        if so_far == 2500:
            place.kill(watcher)
            place.watcher()
        else:
            place.proxy.cut()

    place.waits_until_whole(run)
    lines = place.lines(run)
    assert [line.split(" ", 1)[1] for line in lines] == [f"line {n}" for n in range(8000)]
    assert lines == place.dockers_lines(run.container_id)
