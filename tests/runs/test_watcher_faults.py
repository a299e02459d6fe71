"""What breaks in one round of the watcher is told, and does not end the others."""

import importlib
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis
from django.db.utils import DataError, OperationalError

from servers.contexts import pages
from servers.host.docker.containers import ContainerError
from servers.lifecycle.runs import creation
from servers.models import Box, Run
from servers.models.runs.run import RunState
from servers.watcher import box_row, error_isolation, loop
from servers.watcher.error_isolation import thread_name
from servers.watcher.loop import Watcher
from servers.watcher.runs.runs import Runs
from tests import factories
from tests.samples import card, sample
from tests.scripted_engine import MODEL, ScriptedEngine


@pytest.fixture
def watcher(
    own_redis: redis.Redis, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Watcher:
    settings.BOX_FILE = tmp_path / "box.toml"
    monkeypatch.setattr(box_row, "gather", lambda _sample: (None, {"problems": []}))
    return Watcher()


def on_thread(name: str, work: Any) -> None:
    """As one of the watcher's loops does it."""
    raised: list[BaseException] = []

    def does() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=does, name=name)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


class FaultyWork:
    """Looks around, and finds something that nobody has thought of."""

    error: Exception | None = DataError("value too long for type character varying(20)")

    def look(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.mark.django_db
def test_every_loop_has_words_for_people(watcher: Watcher) -> None:
    loops = {name for name in dir(watcher) if name.startswith("_run_")} - {"_run_safely"}
    assert {thread_name(each) for each in watcher.loops} == {each.strip("_") for each in loops}


@pytest.mark.django_db(transaction=True)
def test_a_round_that_breaks_is_told_on_the_boxs_page_until_one_goes_well(
    watcher: Watcher, caplog: pytest.LogCaptureFixture
) -> None:
    work = FaultyWork()
    with caplog.at_level(logging.ERROR):
        for _round in range(3):
            on_thread("run_external_scan", partial(watcher._run_safely, work.look))
    watcher._give_sign_of_life()

    assert caplog.text.count("A round of run_external_scan broke") == 1
    assert caplog.text.count("value too long") == 1
    ((what, fix),) = pages.panel(Box.objects.get()).problems
    assert what == "An error in inferdash stops its updates of external engines"
    assert "(DataError)" in fix
    assert "value too long" not in fix  # it may be anybody's words

    work.error = None
    on_thread("run_external_scan", partial(watcher._run_safely, work.look))
    watcher._give_sign_of_life()
    assert pages.panel(Box.objects.get()).problems == ()


@pytest.mark.django_db(transaction=True)
def test_what_stays_broken_ends_the_watcher_for_another_to_begin_anew(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = FaultyWork()
    watcher._run_safely(work.look)
    monkeypatch.setattr(error_isolation, "TOO_LONG", 0.0)

    with pytest.raises(DataError):
        watcher._run_safely(work.look)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_is_away_is_no_fault_of_ours(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(error_isolation, "TOO_LONG", 0.0)
    work = FaultyWork()
    work.error = OperationalError("server closed the connection")
    for _round in range(2):
        watcher._run_safely(work.look)
    assert watcher.faults.problems() == []


@pytest.mark.django_db(transaction=True)
def test_who_listens_to_docker_hears_that_it_is_away(watcher: Watcher) -> None:
    work = FaultyWork()
    work.error = ContainerError("Docker Engine does not answer on this box.")
    with pytest.raises(ContainerError):
        watcher._run_safely(work.look, but=ContainerError)
    assert watcher.faults.problems() == []


@pytest.mark.django_db(transaction=True)
def test_docker_that_answers_again_is_said_once(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    away = ContainerError("Docker Engine does not answer on this box.", kind="daemon_down")
    answers: list[ContainerError | None] = [None, away, away, None, None]

    class OutageDocker:
        def events(self) -> list[object]:
            answer = answers.pop(0)
            if not answers:
                watcher.stop()
            if answer is not None:
                raise answer
            return []

    monkeypatch.setattr(creation, "docker", OutageDocker)
    monkeypatch.setattr(loop, "RETRY", 0.0)
    caplog.set_level(logging.INFO, "servers.watcher.loop")
    on_thread("run_docker_events", watcher._run_docker_events)

    said = [each.getMessage() for each in caplog.records if each.levelno == logging.INFO]
    assert said == ["Docker Engine answers on this box again."]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "part",
    ["servers.watcher.logs.follower.search_patterns", "servers.watcher.runs.probes.probe_start"],
)
def test_what_breaks_for_one_server_leaves_the_others_theirs(
    own_redis: redis.Redis, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    box = factories.box()
    with ScriptedEngine() as engine:
        at = {"address": "127.0.0.1", "port": engine.port, "served_name": MODEL}
        broken, whole = (
            factories.run(
                factories.server(box, name, engine="vllm", ready_path=f"/{name}"), RunState.STARTING
            )
            for name in ("broken", "whole")
        )
        engine.answers["/whole"] = (200, "")
        Run.objects.update(**at)
        module, _, name = part.rpartition(".")
        does = getattr(importlib.import_module(module), name)

        def breaks(subject: Any, *words: Any, **more: Any) -> Any:
            is_its = subject == broken if isinstance(subject, Run) else more["path"] == "/broken"
            if is_its:
                raise ValueError("nobody has thought of that")
            return does(subject, *words, **more)

        monkeypatch.setattr(part, breaks)

        with pytest.raises(ValueError, match="nobody has thought of that"):
            Runs(box).tick(within=5.0)

    whole.refresh_from_db()
    assert whole.state == RunState.READY


def for_each(names: list[str], does: Callable[[str], None]) -> None:
    with error_isolation.ErrorIsolation() as apart:
        for name in names:
            with apart.each(name):
                does(name)


def test_what_breaks_for_several_is_told_together() -> None:
    done = []

    def does(name: str) -> None:
        done.append(name)
        if name != "two":
            raise ValueError(name)

    with pytest.raises(ExceptionGroup) as caught:
        for_each(["one", "two", "three"], does)

    assert done == ["one", "two", "three"]
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes == [["It broke for one."], ["It broke for three."]]


def test_a_database_that_is_away_ends_the_round_at_once() -> None:
    done = []

    def does(name: str) -> None:
        done.append(name)
        raise OperationalError("gone")

    with pytest.raises(OperationalError):
        for_each(["one", "two"], does)

    assert done == ["one"]


@pytest.mark.django_db(transaction=True)
def test_containers_that_come_and_go_do_not_keep_the_watcher_looking(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[float] = []

    def look(_sample: object) -> None:
        looked_at.append(time.monotonic())
        watcher.around.set()  # as each of Docker's events does
        if len(looked_at) == 3:
            watcher.stop()

    monkeypatch.setattr(watcher.external, "look", look)
    watcher.boot_is_noted.set()

    on_thread("run_external_scan", watcher._run_external_scan)

    gaps = [after - before for before, after in pairwise(looked_at)]
    assert all(gap >= loop.AROUND_AT_MOST * 0.99 for gap in gaps), gaps


@pytest.mark.django_db(transaction=True)
def test_a_wake_gathers_the_boxs_facts_anew_only_where_they_are_old(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker, the limits and mount roots: all of it takes longer than the rest of a round."""
    rounds: list[str] = []

    def look_after() -> None:
        rounds.append("round")
        watcher.wake.set()
        if rounds.count("round") == 3:
            watcher.facts_are_old.set()
        if rounds.count("round") == 5:
            watcher.stopping.set()

    monkeypatch.setattr(watcher, "_look_after_box", look_after)
    monkeypatch.setattr(watcher, "_give_sign_of_life", lambda: rounds.append("sign"))
    monkeypatch.setattr(loop, "TICK", 0.0)
    monkeypatch.setattr(loop, "RECONCILE_EVERY", 3600.0)
    monkeypatch.setattr(watcher, "_tidy", lambda: None)
    monkeypatch.setattr("servers.watcher.loop.writer.tidy_logs", lambda _box: None)

    on_thread("run_reconciler", watcher._run_reconciler)

    assert rounds == ["round", "sign", "round", "round", "sign", "round", "round"]


@pytest.mark.django_db(transaction=True)
def test_the_row_says_at_once_that_gpus_have_come_or_gone(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a round would only see after seconds, while the cards stand on the page already."""
    none = sample([], []) | {"error": "No driver.", "stale_s": None}
    hangs = none | {"stale_s": 6.0}
    there = sample([card(0, [])], []) | {"error": None, "stale_s": None}
    steps = [
        (none, True),
        (none, False),
        (hangs | {"error": "Silent for 6 s."}, True),
        (hangs | {"error": "Silent for 7 s."}, False),
        (there, True),
        (there, False),
    ]
    woken: list[bool] = []

    def next_sample(timeout: float) -> dict[str, Any] | None:
        woken.append(watcher.wake.is_set() and watcher.facts_are_old.is_set())
        watcher.wake.clear()
        watcher.facts_are_old.clear()
        if len(woken) > len(steps):
            watcher.stopping.set()
            return None
        return steps[len(woken) - 1][0]

    monkeypatch.setattr(watcher.collector, "start", lambda: None)
    monkeypatch.setattr(watcher.collector, "next_sample", next_sample)
    watcher._run_sampler()

    assert woken[1:] == [wakes for _sample, wakes in steps]
    monkeypatch.setattr(box_row, "gather", lambda _sample: (None, {"problems": [{"what": "x"}]}))
    for is_news in (True, False):
        watcher.to_send.clear()
        watcher._give_sign_of_life()
        assert watcher.to_send.is_set() is is_news
