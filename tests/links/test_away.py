"""A box that was away: what was asked for meanwhile, and what its cards say."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as live
from django.test import Client
from django.utils import timezone

from servers.lifecycle.runs import old_wishes
from servers.models import Box, Run, User
from servers.models.jobs import Job, JobKind, JobState
from servers.models.runs.run import DesiredState, RunState
from servers.models.trials import TrialStep, UpgradeTrial
from servers.watcher import box_row
from servers.watcher.loop import Watcher
from tests import factories
from tests.cases import Cases

AWAY = timedelta(hours=2)
RECENT, LONG_AGO, BEFORE = 300.0, 3600.0, 3 * 3600.0  # seconds


def queued(box: Box, name: str, age: float, **values: Any) -> Run:
    server = factories.server(box, name)
    return factories.run(server, RunState.QUEUED, age=age, **values)


@pytest.mark.django_db
def test_old_starts_are_asked_again_and_stops_are_carried_out() -> None:
    box, now = factories.box("laurel"), timezone.now()
    away_since = now - AWAY
    ada = factories.person()

    def ago(seconds: float) -> datetime:
        return now - timedelta(seconds=seconds)

    old = queued(box, "old", LONG_AGO)
    kept = [queued(box, "recent", RECENT), queued(box, "waited before", BEFORE, waits=True)]
    elsewhere = queued(factories.box("milo"), "elsewhere", LONG_AGO)
    stops = factories.run(
        factories.server(box, "stops"), wanted=DesiredState.STOPPED, stop_requested_at=ago(LONG_AGO)
    )
    restarts = [
        factories.run(
            factories.server(box, f"restarts {age}"), wanted=DesiredState.STOPPED,
            stop_requested_at=ago(age), restart_for=ada,
        )
        for age in (LONG_AGO, RECENT)
    ]  # fmt: skip
    jobs = [
        Job.objects.create(
            box=box, kind=JobKind.DELETE, target=str(age), asked_by=ada, asked_at=ago(age)
        )
        for age in (LONG_AGO, RECENT, BEFORE)
    ]

    waiting = {
        name: UpgradeTrial(
            server_name=name, by=ada, asked_at=ago(age), step=step, not_before=not_before
        )
        for name, age, step, not_before in (
            ("an old one", LONG_AGO, TrialStep.MEASURE_OLD, None),
            ("an old one that waits until nobody uses it", LONG_AGO, TrialStep.WAIT, None),
            ("an old one whose hour has passed", LONG_AGO, TrialStep.WAIT, ago(LONG_AGO)),
            ("a new one", RECENT, TrialStep.MEASURE_OLD, None),
            ("one from before", BEFORE, TrialStep.MEASURE_OLD, None),
            ("an old one for tonight", LONG_AGO, TrialStep.WAIT, now + AWAY),
            ("an old one that has loaded another", LONG_AGO, TrialStep.MEASURE_NEW, None),
        )
    }
    for trial in waiting.values():  # one at a time a box
        trial.box = box
        trial.save()
        old_wishes.put_back(box, away_since=away_since)
        UpgradeTrial.objects.filter(pk=trial.pk).update(box=factories.box(f"b{trial.pk}"))

    with Cases() as cases:
        with cases.named("an old start"):
            old.refresh_from_db()
            assert old.state == RunState.STOPPED
            assert old.status_message == (
                "It was asked for while laurel was away, more than 10 minutes before it came back, "
                "so it was not done. Start it again if it is still wanted."
            )
        with cases.named("a new start, one that waits for longer, and one of another box"):
            for run in (*kept, elsewhere):
                run.refresh_from_db()
                assert (run.state, run.status_message) == (RunState.QUEUED, "")
        with cases.named("a stop"):
            stops.refresh_from_db()
            assert stops.wanted == DesiredState.STOPPED
        with cases.named("restarts: the stop is as it was, the old start is not"):
            for run, by in zip(restarts, (None, ada), strict=True):
                run.refresh_from_db()
                assert (run.wanted, run.restart_for) == (DesiredState.STOPPED, by)
        with cases.named("jobs"):
            found = [Job.objects.get(pk=job.pk).state for job in jobs]
            assert found == [JobState.CANCELLED, JobState.ASKED, JobState.ASKED]
        for name, trial in waiting.items():
            with cases.named(f"trials: {name}"):
                trial.refresh_from_db()
                is_put_back = list(waiting).index(name) < 3
                assert trial.is_open != is_put_back
                assert ("Try it again if it is still wanted." in trial.said) == is_put_back


@pytest.mark.django_db
def test_a_watcher_judges_wishes_before_anything_else_and_until_the_hub_has_heard_of_it(
    settings: Any, monkeypatch: pytest.MonkeyPatch, own_redis: object, root: object
) -> None:
    settings.WIRE = "box"
    box = factories.box(live.BOX)
    Box.objects.filter(pk=box.pk).update(seen_at=timezone.now() - AWAY)
    asked: list[datetime] = []
    monkeypatch.setattr(
        old_wishes, "put_back", lambda _box, *, away_since: asked.append(away_since)
    )
    watcher = Watcher()
    monkeypatch.setattr(watcher.runs, "reconcile", lambda: None)
    monkeypatch.setattr(box_row, "note_boot", lambda *_args, **_values: None)
    monkeypatch.setattr(box_row, "gather", lambda _sample: (None, {"problems": []}))

    for _round in range(2):
        watcher._look_after_box()
    watcher._give_sign_of_life()
    watcher._look_after_box()

    assert len(asked) == 2
    assert Box.objects.get().away_since is None


@pytest.mark.django_db
def test_a_box_with_a_slow_clock_is_not_away(
    monkeypatch: pytest.MonkeyPatch, own_redis: object, root: object
) -> None:
    box = factories.box(live.BOX)
    monkeypatch.setattr(box_row, "gather", lambda _sample: (None, {"problems": []}))
    now = timezone.now
    with monkeypatch.context() as slow:
        slow.setattr(timezone, "now", lambda: now() - timedelta(minutes=4))
        box_row.sign_of_life(box, None, [])
        assert not box.is_silent, "by its own clock"
    assert Box.objects.get().away_since is None, "by the hub's"


@pytest.mark.django_db
def test_cards_say_since_when_a_box_is_away(hub: User, client: Client) -> None:
    box = factories.box("laurel")
    factories.run(factories.server(box, "serves"))
    client.force_login(hub)
    assert "laurel has been away" not in client.get("/").content.decode()
    Box.objects.filter(pk=box.pk).update(seen_at=timezone.now() - AWAY)
    card = client.get("/").content.decode()
    assert "laurel has been away since" in card
    assert "state-ready" in card, "it is no state of a run"
