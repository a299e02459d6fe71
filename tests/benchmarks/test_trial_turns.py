"""Trials at an idle hour, in turns, and with people and dying watchers between their steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from servers import lifecycle
from servers.judge.benchmarks.trials import pool_rounds
from servers.lifecycle.benchmarks import trials
from servers.lifecycle.benchmarks.results import read_points
from servers.models import (
    Benchmark,
    Canary,
    Request,
    Role,
    Run,
    RunHealth,
    Server,
    UpgradeTrial,
    User,
)
from servers.models.runs.run import DesiredState, ManagedServer, RunState
from servers.models.trials import TrialDecision, TrialStep
from tests import factories, measurements
from tests.benchmarks.test_trials import (
    NEW_IMAGE,
    OLD_IMAGE,
    advance,
    server,
    trial,
)
from tests.canary.answered import canary
from tests.cases import Cases

__all__ = ["server", "trial"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]


@pytest.fixture
def speeds() -> dict[str, float]:
    return {OLD_IMAGE: 1.0, NEW_IMAGE: 1.0}


@pytest.fixture
def verdicts() -> dict[str, str]:
    return {OLD_IMAGE: "pass", NEW_IMAGE: "pass"}


@pytest.fixture(autouse=True)
def measures(
    monkeypatch: pytest.MonkeyPatch, speeds: dict[str, float], verdicts: dict[str, str]
) -> None:
    """Check-ups that have ended already, one for all trials that find the same."""

    def find_image(server: Server) -> str:
        run = Server.objects.get(pk=server.pk).run
        assert run is not None
        return run.image_id

    @cache
    def make_result(speed: float) -> int:
        return measurements.benchmark(Server.objects.get(), speed=speed).pk

    @cache
    def make_canary(verdict: str) -> int:
        return canary(Server.objects.get(), verdict=verdict).pk

    def measure(server: Server, _preset: str, *, by: User | None) -> Benchmark:
        return Benchmark.objects.get(pk=make_result(speeds[find_image(server)]))

    def check(server: Server, _set: str, *, by: User | None) -> Canary:
        return Canary.objects.get(pk=make_canary(verdicts[find_image(server)]))

    monkeypatch.setattr("servers.lifecycle.benchmarks.trials.commands.ask", measure)
    monkeypatch.setattr("servers.lifecycle.benchmarks.trials.canaries.ask", check)


def play_docker(server: Server) -> None:
    """What the watcher and Docker do between two looks: stop what is to be stopped, load the rest."""
    active = Run.objects.active().filter(server=server)
    active.exclude(wanted=DesiredState.RUNNING).move(
        old=list(RunState), new=RunState.STOPPED, ended_at=timezone.now()
    )
    for run in Run.objects.active().filter(server=server, state=RunState.QUEUED):
        Run.objects.filter(pk=run.pk).move(
            old=[RunState.QUEUED], new=RunState.READY, ready_at=timezone.now(), port=1,
            address="127.0.0.1",
        )  # fmt: skip
        image = run.plan.pinned_image or NEW_IMAGE
        Run.objects.filter(pk=run.pk).write(image_id=image)


def play(trial: UpgradeTrial, until: Callable[[UpgradeTrial], bool]) -> UpgradeTrial:
    for _time in range(60):
        found = UpgradeTrial.objects.with_details().get(pk=trial.pk)
        if until(found):
            return found
        trials.advance_all(trial.box)
        assert trial.server is not None
        play_docker(trial.server)
    raise AssertionError(f"It stays at {found.step}.")


def is_over(trial: UpgradeTrial) -> bool:
    return not trial.is_open


def list_images(server: Server) -> list[str]:
    return list(server.runs.order_by("pk").values_list("image_id", flat=True))


def test_each_is_loaded_twice_in_turns(
    server: ManagedServer, speeds: dict[str, float], verdicts: dict[str, str]
) -> None:
    ada = factories.person()
    with Cases() as cases:
        for speed, verdict, decision, loaded in (
            (1.0, "pass", TrialDecision.KEEP, [OLD_IMAGE, NEW_IMAGE] * 2),
            (0.9, "pass", TrialDecision.BACK, [*[OLD_IMAGE, NEW_IMAGE] * 2, OLD_IMAGE]),
            # What is wrong need not be measured again.
            (1.0, "wrong", TrialDecision.BACK, [OLD_IMAGE, NEW_IMAGE, OLD_IMAGE]),
        ):
            with cases.named(f"{speed}, {verdict}"):
                speeds[NEW_IMAGE], verdicts[NEW_IMAGE] = speed, verdict
                Run.objects.active().move(
                    old=list(RunState), new=RunState.STOPPED, ended_at=timezone.now()
                )
                first = factories.run(server, image_id=OLD_IMAGE)
                made = trials.ask(Server.objects.get(pk=server.pk), by=ada, is_twice=True)
                found = play(made, is_over)
                assert found.decision == decision, found.said
                assert list_images(server)[-len(loaded) :] == loaded
                assert server.runs.filter(pk__gte=first.pk).count() == len(loaded)
                assert (found.measured_after_again is None) == (verdict == "wrong")


def test_rounds_of_both_turns_count_together(server: ManagedServer) -> None:
    clean = read_points(measurements.benchmark(server))
    tainted = read_points(measurements.benchmark(server, taints=("benchmarks.others",)))

    assert [len(each.rounds) for each in pool_rounds(clean, clean)] == [6, 6]
    assert [len(each.rounds) for each in pool_rounds(tainted, clean)] == [3, 3]


def test_it_begins_when_nobody_uses_the_server(server: ManagedServer) -> None:
    ada, run = factories.person(), server.run
    assert run is not None
    made = trials.ask(server, by=ada, when="idle")
    Request.objects.create(server=server.slug, at=timezone.now(), status=200, duration=1.0)
    busy = {"requests_running": 1}
    with Cases() as cases:
        with cases.named("the gateway has a request"):
            assert advance(made).step == TrialStep.WAIT
        Request.objects.update(at=timezone.now() - timedelta(minutes=20))
        with cases.named("the engine has one"):
            RunHealth.objects.filter(run=run).update(**busy)
            assert advance(made).step == TrialStep.WAIT
        RunHealth.objects.filter(run=run).update(requests_running=0)
        with cases.named("not before the night"):
            night = timezone.now() + timedelta(hours=2)
            UpgradeTrial.objects.update(not_before=night)
            assert advance(made).step == TrialStep.WAIT
        with cases.named("what runs then is what it goes back to"):
            UpgradeTrial.objects.update(not_before=None)
            Run.objects.filter(pk=run.pk).move(
                old=list(RunState), new=RunState.STOPPED, ended_at=timezone.now()
            )
            assert advance(made).step == TrialStep.WAIT
            later = factories.run(server, image_id=NEW_IMAGE)
            found = advance(made)
            assert (found.step, found.old_run_id) == (TrialStep.MEASURE_OLD, later.pk)
        with cases.named("not for ever"):
            UpgradeTrial.objects.update(
                step=TrialStep.WAIT, asked_at=timezone.now() - timedelta(hours=40)
            )
            assert advance(made).decision == TrialDecision.ABANDONED
        with cases.named("tonight is two o’clock"):
            again = trials.ask(Server.objects.get(pk=server.pk), by=ada, when="tonight")
            assert again.not_before is not None
            assert timezone.localtime(again.not_before).hour == 2


STOPPED_AT = (TrialStep.LOAD_NEW, TrialStep.AGAIN_OLD, TrialStep.AGAIN_NEW, TrialStep.GO_BACK)


def test_a_persons_stop_wins_while_another_is_to_be_loaded(
    server: ManagedServer, speeds: dict[str, float]
) -> None:
    """Also where what runs is being stopped by the trial already."""
    speeds[NEW_IMAGE] = 0.8
    ben = factories.person("ben", Role.OPERATOR)
    with Cases() as cases:
        for step in STOPPED_AT:
            with cases.named(step):
                Run.objects.active().move(
                    old=list(RunState), new=RunState.STOPPED, ended_at=timezone.now()
                )
                factories.run(server, image_id=OLD_IMAGE)
                made = trials.ask(Server.objects.get(pk=server.pk), by=ben, is_twice=True)
                play(made, lambda found, step=step: found.step == step)  # type: ignore[misc]
                trials.advance_all(server.box)
                [run] = Run.objects.active().filter_managed().filter(server=server)
                assert run.wanted == DesiredState.DRAINED
                assert lifecycle.stop(run, by=ben)
                found = play(made, is_over)
                assert (found.decision, found.said) == (
                    TrialDecision.ABANDONED, "ben has stopped it.",
                )  # fmt: skip
                assert not Run.objects.active().filter(server=server).exists()


def test_requests_may_end_and_not_for_ever(trial: UpgradeTrial) -> None:
    play(trial, lambda found: found.step == TrialStep.LOAD_NEW)
    trials.advance_all(trial.box)
    run = Run.objects.active().get()
    assert run.wanted == DesiredState.DRAINED
    Run.objects.filter(pk=run.pk).write(stop_requested_at=timezone.now() - timedelta(minutes=3))

    trials.advance_all(trial.box)

    assert Run.objects.active().get().wanted == DesiredState.STOPPED


class DyingError(BaseException):
    """The process is killed."""


# What else is written stands in the same transactions.
WRITES = ('UPDATE "servers_upgradetrial"', 'UPDATE "servers_run"', 'INSERT INTO "servers_run"')


@contextmanager
def die_before(write: int) -> Iterator[list[str]]:
    """So many writes are done, and the next one is not; the list has those that were."""
    done: list[str] = []

    def execute(run: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if sql.startswith(WRITES):
            if len(done) == write:
                raise DyingError
            done.append(sql)
        return run(sql, *rest)

    with connection.execute_wrapper(execute):
        yield done


@pytest.mark.takes(40)
def test_killed_before_each_write_the_old_one_is_ready_again(
    server: ManagedServer, speeds: dict[str, float]
) -> None:
    """A watcher that dies anywhere is followed by one that knows the rows alone."""
    speeds[NEW_IMAGE] = 0.8
    writes = 0
    with Cases() as cases:
        for write in range(200):
            Run.objects.active().move(
                old=list(RunState), new=RunState.STOPPED, ended_at=timezone.now()
            )
            factories.run(server, image_id=OLD_IMAGE)
            made = trials.ask(Server.objects.get(pk=server.pk), by=factories.person())
            with cases.named(f"before write {write}"):
                is_dead = kill(made, write)
                found = play(made, is_over)
                assert (found.decision, found.said) == (
                    TrialDecision.BACK, "It is 20 % slower, more than the 5 % that are put up with.",
                )  # fmt: skip
                [run] = Run.objects.active().filter(server=server)
                assert (run.state, run.image_id) == (RunState.READY, OLD_IMAGE)
            if not is_dead:
                break
            writes += 1
    assert writes > len(TrialStep)


def kill(trial: UpgradeTrial, write: int) -> bool:
    """Whether it had so many writes to do."""
    for _time in range(40):
        try:
            with die_before(write) as done:
                trials.advance_all(trial.box)
        except DyingError:
            return True
        write -= len(done)
        assert trial.server is not None
        play_docker(trial.server)
        if not UpgradeTrial.objects.open().filter(pk=trial.pk).exists():
            return False
    raise AssertionError("It does not end.")
