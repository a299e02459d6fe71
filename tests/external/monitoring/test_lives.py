"""A watched container ends, is started again, is replaced: each life is a run of its own."""

import re

import pytest

from servers.lifecycle.external.monitoring import LOOP, LOOPS
from servers.models import Run
from servers.models.runs.run import RunState
from tests.chaos.place import ChaosSite
from tests.external.monitoring.hands import GRACE, WORDS, Hands

pytestmark = pytest.mark.docker


@pytest.mark.takes(60)
def test_one_that_is_restarted_by_hand_has_a_new_run_with_its_own_log(
    place: ChaosSite, hands: Hands
) -> None:
    place.watcher()
    container = hands.run("again")
    first = hands.is_ready(hands.watches(container))
    place.waits_for_more_than(5, first)

    hands.client.restart(container, timeout=GRACE)

    second = hands.next_run(first)
    hands.is_ready(second)
    place.waits_for_state(first, RunState.STOPPED)
    hands.client.stop(container, timeout=GRACE)
    place.waits_for_state(second, RunState.STOPPED)
    place.waits_until_whole(first)
    place.waits_until_whole(second)
    one, two = place.lines(first), place.lines(second)
    assert one + two == place.dockers_lines(container)
    # Which of an engine's two outputs Docker hears first is not said.
    for lines in (one, two):
        assert sum("engine pid" in line for line in lines) == 1
    assert second.version_id == first.version_id
    assert second.saw_start


@pytest.mark.takes(60)
def test_one_that_dies_has_failed_with_a_reason_and_is_followed_when_docker_starts_it(
    place: ChaosSite, hands: Hands
) -> None:
    place.watcher()
    container = hands.run("dies", publish=8000, restart_policy={"Name": "on-failure"})
    first = hands.is_ready(hands.watches(container))

    hands.kills_engine(container)

    place.waits_for_state(first, RunState.FAILED)

    # Docker starts it again at once: the watcher saw the end itself, or says that nobody did.
    assert re.search("exit code 3|restart policy .* ended in between", first.failure)
    second = hands.next_run(first)
    assert second.pk > first.pk
    place.waits_for("why is looked for", lambda: bool(_fresh(first).log.diagnosis))
    assert not Run.objects.exclude(restart_at=None).exists(), "inferdash starts nothing"


@pytest.mark.takes(60)
def test_the_news_that_a_window_was_resized_is_no_wish_for_an_end(
    place: ChaosSite, hands: Hands
) -> None:
    """`docker run` in somebody's terminal hands it on to the container."""
    place.watcher()
    container = hands.run("resized", publish=8000)
    run = hands.is_ready(hands.watches(container))

    hands.client.kill(container, signal="WINCH")
    hands.kills_engine(container)

    place.waits_for("it has ended", lambda: not _fresh(run).is_active)
    assert run.state == RunState.FAILED
    assert "exit code 3" in run.failure


def _fresh(run: Run) -> Run:
    run.refresh_from_db()
    return run


@pytest.mark.takes(60)
def test_one_that_is_removed_ends_and_one_that_takes_its_place_goes_on(
    place: ChaosSite, hands: Hands
) -> None:
    place.watcher()
    container = hands.run("replaced")
    first = hands.is_ready(hands.watches(container))

    hands.client.remove_container(container, force=True)
    place.waits_for_state(first, RunState.STOPPED, RunState.FAILED)
    assert first.state == RunState.STOPPED, first.failure
    other = hands.run("replaced", *WORDS, "--max-model-len", "4096")

    second = hands.next_run(first)
    assert (second.container_id, second.server_id) == (other, first.server_id)
    hands.is_ready(second)
    assert second.version.number == first.version.number + 1
    assert second.version.launch.flags == ("--max-model-len", "4096")


@pytest.mark.takes(60)
def test_a_service_of_compose_is_followed_whatever_its_container_is_called(
    place: ChaosSite, hands: Hands
) -> None:
    place.watcher()
    labels = {
        "com.docker.compose.project": f"speech{place.docker.install[:6]}",
        "com.docker.compose.service": "llm",
        "com.docker.compose.container-number": "1",
    }
    container = hands.run("speech-llm-1", labels=labels)
    first = hands.is_ready(hands.watches(container))
    assert first.server.slug == f"{labels['com.docker.compose.project']}-llm"
    hands.client.remove_container(container, force=True)

    other = hands.run("speech_llm_run_2", labels=labels)

    assert hands.next_run(first).container_id == other


@pytest.mark.takes(60)
def test_what_happened_while_no_watcher_ran_is_found_out(place: ChaosSite, hands: Hands) -> None:
    watcher = place.watcher()
    container = hands.run("missed")
    first = hands.is_ready(hands.watches(container))
    place.waits_for_more_than(5, first)
    place.kill(watcher)
    hands.client.restart(container, timeout=GRACE)

    place.watcher()

    second = hands.next_run(first)
    hands.is_ready(second)
    place.waits_for_state(first, RunState.STOPPED)
    place.waits_until_whole(first)
    assert place.lines(first) == place.dockers_lines(container)[: len(place.lines(first))]


@pytest.mark.takes(45)
def test_one_that_is_paused_is_said_to_be(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    container = hands.run("pauses")
    run = hands.is_ready(hands.watches(container))

    hands.client.pause(container)
    place.waits_for("the pause is told", lambda: "is paused" in _fresh(run).status_message)
    hands.client.unpause(container)

    place.waits_for("the pause is over", lambda: not _fresh(run).status_message)
    assert run.state == RunState.READY


@pytest.mark.takes(45)
def test_one_that_keeps_dying_is_not_followed_for_ever(place: ChaosSite, hands: Hands) -> None:
    place.watcher()
    env = {"ENGINE_SCRIPT": "crash", "ENGINE_SECONDS": "2"}
    container = hands.run("loops", env=env, restart_policy={"Name": "always"})

    run = hands.watches_one_that_dies(container, "silent")

    place.waits_for(
        "that it loops is said",
        lambda: Run.objects.filter(server=run.server_id).latest("pk").status_message == LOOPS,
    )
    runs = Run.objects.filter(server=run.server_id)
    told = list(runs.order_by("-pk"))
    ends = [
        f"{each.state}: {each.failure} ({each.exit_code}) {each.status_message}" for each in told
    ]
    lately = told[:LOOP]
    # The machine may miss one life before these; then they are counted anew.
    assert len(lately) == LOOP
    assert all(each.state == RunState.FAILED and each.failure for each in lately), "\n".join(ends)

    # Docker goes on starting it.
    begun = _restarts(hands, container)
    place.waits_for("two more lives", lambda: _restarts(hands, container) >= begun + 2)
    assert runs.count() == len(told)


def _restarts(hands: Hands, container: str) -> int:
    return int(hands.client.inspect_container(container)["RestartCount"])
