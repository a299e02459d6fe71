"""How often an idle further box looks and tells."""

import threading
from typing import Any

import pytest

from servers.models import Run
from servers.models.runs.run import RunState
from servers.watcher import pace
from servers.watcher.pace import BoxPace
from tests import factories
from tests.samples import card, sample
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def idle(settings: Any, monkeypatch: pytest.MonkeyPatch) -> BoxPace:
    """On a further box, on which nothing has run for a while."""
    settings.WIRE = "box"
    made = BoxPace(factories.box("milo"), threading.Event())
    made._busy_until = float("-inf")
    # Long enough that only what stirs it ends a wait.
    monkeypatch.setattr(pace, "IDLE_EVERY", 600.0)
    return made


def test_only_a_further_box_without_runs_is_idle(idle: BoxPace, settings: Any) -> None:
    idle.look()
    assert idle.is_idle
    settings.WIRE = "hub"
    assert not idle.is_idle
    settings.WIRE = "box"
    idle.look(is_busy=True)
    assert not idle.is_idle, "a job runs"

    idle._busy_until = float("-inf")
    run = factories.run(factories.server(idle.box))
    idle.look()
    assert not idle.is_idle
    Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)
    idle._busy_until = float("-inf")
    idle.look()
    assert idle.is_idle


def test_what_stirs_it_ends_the_wait(idle: BoxPace) -> None:
    ended = threading.Event()

    def wait() -> None:
        idle.wait(0.0)
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()

    def stir() -> bool:
        idle.stir()
        return ended.is_set()

    wait_until(stir, "it looks again")
    thread.join()
    idle._stopping.set()
    assert idle.wait(1.0), "the watcher ends"


def test_samples_are_told_together_and_at_once_where_a_verdict_changes(idle: BoxPace) -> None:
    told = sample([card(0, [])], []) | {"verdicts": [{"gpu": 0, "verdict": "fine"}]}
    first = idle.take_points(told)
    assert first is not None
    assert len(first) == 1
    assert idle.take_points(told) is None
    changed = idle.take_points(told | {"verdicts": [{"gpu": 0, "verdict": "lost"}]})
    assert changed is not None
    assert len(changed) == 2, "with the point that was held back"
    idle.stir()
    assert idle.take_points(told) is not None, "each second where something happens"
