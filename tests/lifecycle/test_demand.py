"""What a request starts and stops, as rows say it. What containers do then is of test_starts."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers import lifecycle
from servers.lifecycle import gateway
from servers.lifecycle.gateway import NotStartedError
from servers.models import AuditEntry, Box, Role, Run, Server
from servers.models.runs.run import DesiredState, ManagedRun, ManagedServer, RunState
from tests import factories
from tests.profiles.test_checks import browser

pytestmark = [pytest.mark.django_db]


@pytest.fixture
def box(own_redis: None) -> Box:
    return factories.box(gpus=1)


def on_request(box: Box, name: str, **launch: Any) -> ManagedServer:
    launch = {"gpus": "0", "start_on_request": True, "stop_idle": 600} | launch
    return factories.server(box, name, model="qwen3-8b", **launch)


def ago(minutes: float) -> datetime:
    return timezone.now() - timedelta(minutes=minutes)


def asked(server: ManagedServer, passing: tuple[int, ...] = ()) -> ManagedRun | None:
    found = Server.objects.select_related("run", "held_back_by", "profile__current")
    return gateway.ask(found.get(pk=server.pk), by=factories.person(), passing=passing)


def wanted(run: ManagedRun) -> str:
    run.refresh_from_db()
    return run.wanted


def test_a_request_starts_it_once_and_in_its_callers_name(box: Box) -> None:
    server = on_request(box, "coder")

    run = asked(server)

    assert run is not None
    assert (run.on_request, run.waits, run.state) == (True, True, RunState.QUEUED)
    assert run.started_by == factories.person()
    assert AuditEntry.objects.get(action="start").detail["for"] == "a request"
    assert asked(server) is None
    assert server.runs.count() == 1


def test_without_a_word_of_its_profile_nothing_is_started(box: Box) -> None:
    server = factories.server(box, "coder", model="qwen3-8b")

    with pytest.raises(NotStartedError, match="coder is not running. Start it on its page"):
        asked(server)
    assert not Run.objects.exists()


def test_whoever_stops_it_by_hand_holds_it_back_until_somebody_lets_it(box: Box) -> None:
    server = on_request(box, "coder")
    run = asked(server)
    assert run is not None
    lifecycle.stop(run, by=factories.person())
    Run.objects.update(state=RunState.STOPPED, ended_at=timezone.now())

    with pytest.raises(NotStartedError, match="ada has stopped coder"):
        asked(server)

    ben = browser(Role.OPERATOR)
    assert "ada has stopped it" in ben.get("/servers/coder/").content.decode()
    assert ben.post("/servers/coder/let/").status_code == 204
    assert "A request to the" in ben.get("/servers/coder/").content.decode()
    assert asked(server) is not None


def test_what_was_idle_for_as_long_as_its_profile_says_is_stopped(box: Box) -> None:
    idle, asked_lately, by_hand = (on_request(box, name) for name in ("idle", "lately", "hand"))
    over = factories.run(idle, on_request=True, ready_at=ago(60), last_request_at=ago(11))
    used = factories.run(asked_lately, on_request=True, ready_at=ago(60), last_request_at=ago(9))
    mine = factories.run(by_hand, ready_at=ago(60), last_request_at=ago(50))

    gateway.stop_idle(box)

    assert wanted(over) == DesiredState.DRAINED
    assert over.status_message == "Stopped after 10m without a request; one starts it."
    assert AuditEntry.objects.get(action="stop").detail["why"] == over.status_message
    assert wanted(used) == wanted(mine) == DesiredState.RUNNING
    idle.refresh_from_db()
    assert idle.held_back_by is None


def test_an_engine_that_says_nothing_is_kept_by_what_is_passed_on_to_it(box: Box) -> None:
    server = on_request(box, "coder")
    run = factories.run(server, on_request=True, ready_at=ago(60), requests_running=None)

    gateway.note_serving([run.pk])
    gateway.stop_idle(box)

    assert wanted(run) == DesiredState.RUNNING


def test_room_is_made_by_stopping_what_requests_have_started(box: Box) -> None:
    first, second = on_request(box, "first"), on_request(box, "second")
    run = factories.run(first, on_request=True, ready_at=ago(60), last_request_at=ago(1))

    assert asked(second) is not None

    assert wanted(run) == DesiredState.DRAINED
    assert run.status_message == "Stopped to make room for second, which a request needs."


def test_it_waits_for_one_that_serves_and_stops_it_when_it_is_done(box: Box) -> None:
    first, second = on_request(box, "first"), on_request(box, "second")
    run = factories.run(first, on_request=True, ready_at=ago(60), last_request_at=ago(1))

    assert asked(second, passing=(run.pk,)) is not None
    assert wanted(run) == DesiredState.RUNNING

    assert asked(second) is None  # it is queued; who waits for it asks again
    assert wanted(run) == DesiredState.DRAINED
    # On its way out it is in nobody's way.
    assert asked(second) is None


def test_what_a_person_has_started_is_not_stopped_and_the_refusal_names_them(box: Box) -> None:
    first, second = on_request(box, "first"), on_request(box, "second")
    run = factories.run(first, ready_at=ago(60), last_request_at=ago(50))

    with pytest.raises(NotStartedError, match=r"second needs GPU 0, held by first \(ada\)"):
        asked(second)

    assert wanted(run) == DesiredState.RUNNING
    assert not second.runs.exists()


def test_keep_running_makes_it_somebodys_own(box: Box) -> None:
    server = on_request(box, "coder")
    run = factories.run(server, on_request=True, ready_at=ago(60))
    ben = browser(Role.OPERATOR)
    assert "has started it" in ben.get("/servers/coder/").content.decode()

    assert ben.post("/servers/coder/keep/").status_code == 204

    gateway.stop_idle(box)
    assert wanted(run) == DesiredState.RUNNING
    assert run.started_by != factories.person()
    assert "has started it" not in ben.get("/servers/coder/").content.decode()


def test_after_two_failed_starts_requests_start_it_no_more_until_its_profile_changes(
    box: Box,
) -> None:
    server = on_request(box, "coder")
    for _ in range(2):
        assert asked(server) is not None
        server.runs.filter(state=RunState.QUEUED).update(
            state=RunState.FAILED, failure="CUDA out of memory.", ended_at=timezone.now()
        )

    with pytest.raises(NotStartedError, match="2 times in a row: CUDA out of memory"):
        asked(server)

    profile = server.profile
    profile.save_version(profile.launch, by=factories.person())
    assert asked(server) is not None


def test_a_start_that_is_known_to_fail_is_not_made(box: Box) -> None:
    server = on_request(box, "coder", gpus="3")

    with pytest.raises(NotStartedError, match="coder is not started: "):
        asked(server)
    assert not Run.objects.exists()
