"""Alerts of canaries, and canaries that begin by themselves."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.lifecycle.canary import automatic, commands
from servers.models import Alert, Canary, CanaryJob, Run, RunHealth
from servers.models.jobs import JobState
from servers.models.runs.run import ManagedServer, RunState
from servers.watcher.alerts import AlertMonitor
from tests import factories
from tests.canary.answered import canary
from tests.canary.engine import CanaryModel
from tests.cases import Cases
from tests.measurements import MEASURED_ON

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

DAMAGED = CanaryModel(forgets_beyond=8000)
NEWER = {**MEASURED_ON, "image": "vllm/vllm-openai:v0.21.0", "engine_version": "0.21.0"}


@pytest.fixture
def server() -> ManagedServer:
    flags = ("--kv-cache-dtype", "fp8_e5m2")
    made = factories.server(factories.box("rtx8"), engine="vllm", flags=flags)
    factories.run(made)
    return made


def alerts(of: ManagedServer) -> list[Alert]:
    AlertMonitor(of.box).step(None)
    return list(Alert.objects.open())


def test_a_server_that_is_fast_but_wrong_is_told_with_what_changed_and_what_is_known(
    server: ManagedServer,
) -> None:
    canary(server)
    assert alerts(server) == []

    canary(server, DAMAGED, measured_on=NEWER)

    [alert] = alerts(server)
    assert (alert.kind, alert.severity) == ("answers", "critical")
    assert alert.title == "qwen3-8b on rtx8 is fast but wrong"
    assert "Finds a sentence at 50 % of 6k tokens: It says “000000”" in alert.detail
    assert "image vllm/vllm-openai:v0.20.2 → vllm/vllm-openai:v0.21.0" in alert.advice
    assert "fp8_e5m2 keeps only two bits" in alert.advice


def test_words_fit_speed_and_verdict(server: ManagedServer) -> None:
    canary(server)
    with Cases() as cases:
        for model, rate, title in (
            (DAMAGED, 30.0, "answers wrongly"),
            (CanaryModel(is_other=True), 120.0, "answers otherwise than before"),
        ):
            with cases.named(title):
                made = canary(server, model, rate=rate)
                [alert] = alerts(server)
                assert alert.title == f"qwen3-8b on rtx8 {title}"
                made.delete()
                Alert.objects.all().delete()


def test_it_is_over_when_somebody_accepts_or_something_else_runs(server: ManagedServer) -> None:
    def start_again() -> None:
        Run.objects.update(state=RunState.STOPPED)
        factories.run(server)

    canary(server)
    with Cases() as cases:
        with cases.named("started again as it was"):
            canary(server, DAMAGED)
            start_again()
            assert len(alerts(server)) == 1
        with cases.named("another version"):
            server.profile.save_version(
                replace(server.profile.launch, image="vllm/vllm-openai:v0.21.0"), by=None
            )
            Alert.objects.all().delete()
            start_again()
            assert alerts(server) == []
        with cases.named("accepted"):
            made = canary(server, DAMAGED)
            assert len(alerts(server)) == 1
            Alert.objects.all().delete()
            assert commands.accept(made, by=factories.person())
            assert alerts(server) == []


def test_a_start_that_changed_something_is_checked_by_itself_where_the_profile_says_so() -> None:
    box = factories.box("rtx8")
    made = factories.server(box, check_answers=True)
    factories.run(factories.server(box, "other"), ready_at=timezone.now() - timedelta(minutes=2))

    def begin(**values: Any) -> list[Canary]:
        CanaryJob.objects.update(state=JobState.DONE)
        Run.objects.filter(server=made).update(state=RunState.STOPPED)
        ready = timezone.now() - timedelta(minutes=2)
        factories.run(made, **{"ready_at": ready, **values})
        known = set(Canary.objects.values_list("pk", flat=True))
        automatic.ask_after_changes(box)
        automatic.ask_after_changes(box)
        return list(Canary.objects.exclude(pk__in=known))

    with Cases() as cases:
        with cases.named("the first"):
            [first] = begin(image_id="sha256:1")
            assert (first.by, first.set_key, first.server) == (None, "quick", made)
            assert CanaryJob.objects.get().gives_way
        with cases.named("nothing has changed"):
            made.refresh_from_db()
            canary(made)
            assert begin(image_id="sha256:1") == []
        with cases.named("another image"):
            [found] = begin(image_id="sha256:2")
            assert found.server == made
        with cases.named("it has just become ready"):
            assert begin(image_id="sha256:3", ready_at=timezone.now()) == []


def test_a_full_one_follows_at_night(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the profile wants canaries and nobody has used the server."""
    box = factories.box("rtx8")
    made = factories.server(box, check_answers=True)
    factories.run(made, ready_at=timezone.now() - timedelta(hours=2))
    factories.run(factories.server(box, "other"), ready_at=timezone.now() - timedelta(hours=2))

    def look(hour: int) -> list[Canary]:
        CanaryJob.objects.update(state=JobState.DONE)
        night = timezone.localtime().replace(hour=hour)
        monkeypatch.setattr("servers.lifecycle.canary.automatic.timezone.localtime", lambda: night)
        known = set(Canary.objects.values_list("pk", flat=True))
        automatic.ask_at_night(box)
        return list(Canary.objects.exclude(pk__in=known))

    run = made.run
    assert run is not None
    with Cases() as cases:
        with cases.named("by day"):
            assert look(12) == []
        with cases.named("somebody uses it"):
            RunHealth.objects.filter(run=run).update(last_request_at=timezone.now())
            assert look(2) == []
        RunHealth.objects.filter(run=run).update(last_request_at=None)
        with cases.named("at night"):
            [found] = look(2)
            assert (found.server, found.set_key, found.by) == (made, "full", None)
        with cases.named("once"):
            assert look(3) == []
        with cases.named("a week later"):
            Canary.objects.update(asked_at=timezone.now() - timedelta(days=8), outcome="whole")
            assert len(look(2)) == 1
