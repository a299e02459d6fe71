"""Trials of upgrades: asked for by people, moved on by the box's watcher, step by step.

Each step is told by the rows alone, and does nothing twice: a watcher that dies goes on where it was.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal

from django.db import IntegrityError, transaction
from django.db.models.expressions import Combinable
from django.utils import timezone

from servers import events
from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.trials import AnswersVerdict, TrialVerdict, judge_trial, pool_rounds
from servers.judge.messages import say
from servers.lifecycle.benchmarks import commands
from servers.lifecycle.benchmarks.commands import BenchmarkRequestError
from servers.lifecycle.benchmarks.results import read_points
from servers.lifecycle.benchmarks.subject import refuse
from servers.lifecycle.canary import commands as canaries
from servers.lifecycle.canary.commands import CanaryRequestError
from servers.lifecycle.runs import commands as runs
from servers.lifecycle.runs.ownership import require_managed
from servers.models import AuditEntry, Benchmark, Box, Canary, Request, Run, Server, User
from servers.models.runs.run import DesiredState, RunState
from servers.models.trials import TrialDecision, TrialStep, UpgradeTrial

PRESET, CANARY_SET = "quick", "quick"
MOST_TRIES = 3  # to measure the new one cleanly, and of what was cut off
# How long one of its steps may wait: for people to be gone, or for another check-up.
WAITS_AT_MOST = timedelta(minutes=30)
# Nobody uses it who has not asked anything for so long.
IDLE = timedelta(minutes=15)
PATIENCE = timedelta(hours=36)  # for such a time
NIGHT = 2  # o'clock, on the box's own clock
# Running requests may end before what answers them is stopped.
DRAINS_AT_MOST = timedelta(minutes=2)
# A start may take so many times what the old one took, and at least the minutes below.
LONGER, LOADS_AT_LEAST = 3, timedelta(minutes=30)


class TrialRequestError(Exception):
    """A trial that cannot be begun or decided; the text says why."""


type TrialStart = Literal["now", "idle", "tonight"]


def ask(
    server: Server, *, by: User, when: TrialStart = "now", is_twice: bool = False
) -> UpgradeTrial:
    """Have what the server would start now tried against what it runs.

    Not "now": once nobody uses it, "tonight" not before two o'clock. `is_twice`: in turns, A B A B.
    Raises TrialRequestError.
    """
    run = server.run
    if why := refuse(run):
        raise TrialRequestError(f"{server.slug} cannot be tried. {why}")
    assert run is not None
    if not run.image_id:
        raise TrialRequestError(
            "Nobody knows which image it runs, so it could not be brought back."
        )
    try:
        with transaction.atomic():
            made = UpgradeTrial.objects.create(
                box=server.box, server=server, server_name=server.slug, by=by, old_run=run,
                step=TrialStep.MEASURE_OLD if when == "now" else TrialStep.WAIT,
                is_patient=when != "now", is_twice=is_twice,
                not_before=_find_night() if when == "tonight" else None,
            )  # fmt: skip
            AuditEntry.note(by, "try upgrade", server, run=run.pk)
    except IntegrityError as error:
        raise TrialRequestError(
            f"Another trial is under way on {server.box}. Wait for its end, or stop it."
        ) from error
    _tell(server)
    return made


def _find_night() -> datetime:
    now = timezone.localtime()
    night = now.replace(hour=NIGHT, minute=0, second=0, microsecond=0)
    return night if night > now else night + timedelta(days=1)


def go_back(trial: UpgradeTrial, *, by: User) -> None:
    """End it now, with what ran before. Raises TrialRequestError."""
    if not trial.is_open:
        raise TrialRequestError("It is over. Start the earlier run from the server’s page.")
    if not trial.has_loaded:
        _end(trial, TrialDecision.ABANDONED, "It was stopped before anything was changed.", by=by)
    elif trial.step != TrialStep.GO_BACK:
        _cancel_checkups(trial)
        _move(
            trial, TrialStep.GO_BACK, decision=TrialDecision.BACK, decided_by=by,
            said="A person decided to go back.",
        )  # fmt: skip


def keep(trial: UpgradeTrial, *, by: User) -> None:
    """End it now, with what was loaded. Raises TrialRequestError."""
    if not trial.runs_new:
        raise TrialRequestError("There is nothing to keep yet, or not any more.")
    _cancel_checkups(trial)
    _end(trial, TrialDecision.KEEP, "A person decided to keep it.", by=by)


def call_off_old(
    box: Box, *, asked_between: tuple[datetime, datetime | Combinable], said: str
) -> None:
    """Those of that time that have not begun, unless the hour that they wait for is still to come."""
    unbegun = UpgradeTrial.objects.filter(
        box=box, step__in=[TrialStep.WAIT, TrialStep.MEASURE_OLD], measured_before=None
    )
    old = unbegun.filter(asked_at__range=asked_between).exclude(not_before__gt=timezone.now())
    for trial in old.with_details():
        _end(trial, TrialDecision.ABANDONED, said)


def advance_all(box: Box) -> None:
    """Move the box's trial on, where it can be."""
    for trial in UpgradeTrial.objects.open().filter(box=box).with_details():
        advance(trial)


def advance(trial: UpgradeTrial) -> None:
    server = trial.server
    if server is None or trial.old_run is None:
        _end(trial, TrialDecision.ABANDONED, "Its server was deleted.")
        return
    run = (
        Run.objects.select_related("version", "plan", "health", "stopped_by", "server__box")
        .filter(pk=server.run_id or 0)
        .first()
    )
    _STEPS[TrialStep(trial.step)](trial, server, run)


def _wait_for_idle(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    now = timezone.now()
    if now - max(trial.asked_at, trial.not_before or trial.asked_at) > PATIENCE:
        said = "People used it all the time, or it did not run. Nothing was changed."
        _end(trial, TrialDecision.ABANDONED, said)
        return
    if run is None or refuse(run) or not run.image_id:
        return
    if (trial.not_before is None or now >= trial.not_before) and _is_idle(server, run):
        _move(trial, TrialStep.MEASURE_OLD, old_run=run)


def _is_idle(server: Server, run: Run) -> bool:
    since = timezone.now() - IDLE
    last = run.health.last_request_at
    return (
        not run.health.requests_running
        and (last is None or last < since)
        and not Request.objects.filter(server=server.slug, at__gte=since).exists()
    )


def _measure_old(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    if _has_lost_old(trial, run):
        return
    if (found := _measure(trial, server, "measured_before")) is None:
        return
    if _is_clean(found):
        _move(trial, TrialStep.CHECK_OLD)
    else:
        # Without it nothing could be told in the end, and the outage would be for nothing.
        why = found.why or _explain_taints(found)
        said = f"What runs could not be measured cleanly. {why} Nothing was changed."
        _end(trial, TrialDecision.ABANDONED, said)


def _check_old(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    if not _has_lost_old(trial, run) and _check(trial, server, "answers_before") is not None:
        _move(trial, TrialStep.LOAD_NEW)


def _has_lost_old(trial: UpgradeTrial, run: Run | None) -> bool:
    if run is not None and run.pk == trial.old_run_id and not refuse(run):
        return False
    _end(trial, TrialDecision.ABANDONED, "What ran has ended meanwhile. Nothing was changed.")
    return True


def _load_new(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    assert trial.old_run is not None
    if _is_taken(trial, run):
        return
    if run is None or run.pk == trial.old_run_id:
        if _has_ended(trial, server, run):
            runs.start(require_managed(server), by=trial.by)
            _wake(server)
    else:
        _await_ready(trial, run, TrialStep.MEASURE_NEW, new_run=run)


def _await_ready(trial: UpgradeTrial, run: Run, then: TrialStep, **more: object) -> None:
    """Move on once it is ready, and back if it will not be."""
    assert trial.old_run is not None
    if run.state == RunState.READY:
        _move(trial, then, **more)
    elif not run.is_active and run.restart_at is None:
        said = f"It did not become ready. {run.failure}".strip()
        _move(trial, TrialStep.GO_BACK, decision=TrialDecision.BACK, said=said, **more)
    elif timezone.now() - trial.moved_at > _find_patience(trial.old_run):
        said = "It took too long to become ready."
        _move(trial, TrialStep.GO_BACK, decision=TrialDecision.BACK, said=said, **more)


def _is_taken(trial: UpgradeTrial, run: Run | None) -> bool:
    """Whether a person has stopped it: theirs is the last word. Trials stop in nobody's name."""
    if run is None or run.stopped_by is None:
        return False
    _end(trial, TrialDecision.ABANDONED, f"{run.stopped_by} has stopped it.")
    return True


def _has_ended(trial: UpgradeTrial, server: Server, run: Run | None) -> bool:
    """Whether another may be loaded. It is asked to end after its requests, and not for ever."""
    if run is None:
        return True
    if run.is_active:
        is_late = run.stop_requested_at is not None and (
            timezone.now() - run.stop_requested_at > DRAINS_AT_MOST
        )
        if run.wanted == DesiredState.RUNNING or (run.wanted == DesiredState.DRAINED and is_late):
            why = f"the {trial} loads another"
            runs.stop(require_managed(run), by=None, after_requests=not is_late, why=why)
        _wake(server)
        return False
    if run.restart_at is not None:
        runs.call_off(require_managed(server), by=None)
    return True


def _find_patience(old: Run) -> timedelta:
    took = old.ready_at - old.created_at if old.ready_at else timedelta()
    return max(LOADS_AT_LEAST, LONGER * took)


def _measure_new(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    if _has_lost_new(trial, run):
        return
    if (found := _measure(trial, server, "measured_after")) is None:
        return
    tries = Benchmark.objects.filter(run=trial.new_run, preset=PRESET).count()
    if _is_clean(found) or tries >= MOST_TRIES:
        _move(trial, TrialStep.CHECK_NEW)
    else:
        UpgradeTrial.objects.filter(pk=trial.pk).update(measured_after=None)


def _check_new(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    if _has_lost_new(trial, run) or _check(trial, server, "answers_after") is None:
        return
    if trial.is_twice and _read_answers(trial.answers_after) != "wrong":
        _move(trial, TrialStep.AGAIN_OLD)
    else:
        _decide(trial)


def _again_old(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    assert trial.old_run is not None
    _load_like(trial, server, run, trial.old_run, then=TrialStep.MEASURE_OLD_AGAIN)


def _measure_old_again(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    lost = _has_lost(trial, run, repeats=trial.old_run_id)
    if not lost and _measure(trial, server, "measured_before_again") is not None:
        _move(trial, TrialStep.AGAIN_NEW)


def _again_new(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    if trial.new_run is None:
        said = "What was tried is not known any more."
        _move(trial, TrialStep.GO_BACK, decision=TrialDecision.BACK, said=said)
        return
    _load_like(trial, server, run, trial.new_run, then=TrialStep.MEASURE_NEW_AGAIN)


def _measure_new_again(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    lost = _has_lost(trial, run, repeats=trial.new_run_id)
    if not lost and _measure(trial, server, "measured_after_again") is not None:
        _decide(UpgradeTrial.objects.with_details().get(pk=trial.pk))


def _load_like(
    trial: UpgradeTrial, server: Server, run: Run | None, like: Run, *, then: TrialStep
) -> None:
    if _is_taken(trial, run):
        return
    if run is not None and run.plan.repeats_id == like.pk:
        _await_ready(trial, run, then)
    elif _has_ended(trial, server, run):
        runs.start(require_managed(server), by=trial.by, like=like)
        _wake(server)


def _decide(trial: UpgradeTrial) -> None:
    judged = _judge(trial)
    if judged.decision == "keep":
        _end(trial, TrialDecision.KEEP, judged.says.text)
    else:
        _move(trial, TrialStep.GO_BACK, decision=TrialDecision.BACK, said=judged.says.text)


def _judge(trial: UpgradeTrial) -> TrialVerdict:
    def read(*results: Benchmark | None) -> list[MeasuredPoint]:
        first, second = (read_points(each) if each else [] for each in results)
        return pool_rounds(first, second)

    return judge_trial(
        read(trial.measured_before, trial.measured_before_again),
        read(trial.measured_after, trial.measured_after_again),
        answers=_read_answers(trial.answers_after),
        most_loss=trial.most_loss,
    )


def _read_answers(canary: Canary | None) -> AnswersVerdict:
    match canary.verdict if canary is not None else "":
        case "pass" | "changed" | "wrong" | "unknown" as verdict:
            return verdict
    return ""


def _has_lost_new(trial: UpgradeTrial, run: Run | None) -> bool:
    is_it = run is not None and run.pk == trial.new_run_id
    return _has_lost(trial, run, repeats=None if is_it else -1)


def _has_lost(trial: UpgradeTrial, run: Run | None, *, repeats: int | None) -> bool:
    """Whether it has died, or somebody has ended it: then people, or the way back, go on.

    `repeats`: the run that it is like; None: it is known to be the one.
    """
    is_it = run is not None and repeats in (None, run.plan.repeats_id)
    if is_it and not refuse(run):
        return False
    if not _is_taken(trial, run):
        said = "It ended, or did not answer any more, while it was measured."
        _move(trial, TrialStep.GO_BACK, decision=TrialDecision.BACK, said=said)
    return True


def _go_back(trial: UpgradeTrial, server: Server, run: Run | None) -> None:
    assert trial.old_run is not None
    if _is_taken(trial, run):
        return
    is_untouched = (
        run is not None and run.pk == trial.old_run_id and run.wanted == DesiredState.RUNNING
    )
    if run is not None and (is_untouched or run.plan.repeats_id == trial.old_run_id):
        if run.state == RunState.READY:
            _end(trial, TrialDecision.BACK, trial.said)
        elif not run.is_active and run.restart_at is None:
            said = f"{trial.said} The old one did not start again either: {run.failure}".strip()
            _end(trial, TrialDecision.BACK, said)
    elif _has_ended(trial, server, run):
        runs.start(require_managed(server), by=trial.by, like=trial.old_run)
        _wake(server)


_STEPS: dict[TrialStep, Callable[[UpgradeTrial, Server, Run | None], None]] = {
    TrialStep.WAIT: _wait_for_idle,
    TrialStep.MEASURE_OLD: _measure_old,
    TrialStep.CHECK_OLD: _check_old,
    TrialStep.LOAD_NEW: _load_new,
    TrialStep.MEASURE_NEW: _measure_new,
    TrialStep.CHECK_NEW: _check_new,
    TrialStep.AGAIN_OLD: _again_old,
    TrialStep.MEASURE_OLD_AGAIN: _measure_old_again,
    TrialStep.AGAIN_NEW: _again_new,
    TrialStep.MEASURE_NEW_AGAIN: _measure_new_again,
    TrialStep.GO_BACK: _go_back,
}


def _measure(trial: UpgradeTrial, server: Server, column: str) -> Benchmark | None:
    """Its result once it has ended; it is asked for where it was not yet."""
    made: Benchmark | None = getattr(trial, column)
    if made is None:
        try:
            made = commands.ask(server, PRESET, by=trial.by)
        except BenchmarkRequestError as error:
            _wait(trial, str(error))
            return None
        UpgradeTrial.objects.filter(pk=trial.pk).update(**{column: made})
        return None
    return None if made.is_open or _begin_anew(trial, column, made) else made


def _begin_anew(trial: UpgradeTrial, column: str, made: Benchmark | Canary) -> bool:
    """Whether it was cut off with its watcher: then it is asked for again, though not for ever."""
    if made.job is None or not made.job.was_cut:
        return False
    tried = type(made).objects.filter(server=trial.server_id, asked_at__gte=trial.moved_at)
    if tried.count() >= MOST_TRIES:
        return False
    UpgradeTrial.objects.filter(pk=trial.pk, **{column: made}).update(**{column: None})
    return True


def _is_clean(found: Benchmark) -> bool:
    """Whether any of its points is: those are what is compared."""
    return any(not point.taints for point in found.points.defer("requests"))


def _explain_taints(found: Benchmark) -> str:
    codes = sorted({code for point in found.points.defer("requests") for code in point.taints})
    if not codes or "benchmarks.others" in codes:
        return "People use it. Try again when it is idle."
    return f"Why: {', '.join(say(code).text for code in codes)}."


def _check(trial: UpgradeTrial, server: Server, column: str) -> Canary | None:
    made: Canary | None = getattr(trial, column)
    if made is None:
        try:
            made = canaries.ask(server, CANARY_SET, by=trial.by)
        except CanaryRequestError as error:
            _wait(trial, str(error))
            return None
        UpgradeTrial.objects.filter(pk=trial.pk).update(**{column: made})
        return None
    return None if made.is_open or _begin_anew(trial, column, made) else made


def _wait(trial: UpgradeTrial, why: str) -> None:
    """For another check-up, but not for ever."""
    if timezone.now() - trial.moved_at < WAITS_AT_MOST:
        return
    if trial.has_loaded:
        said = f"It could not be measured: {why}"
        _move(trial, TrialStep.GO_BACK, decision=TrialDecision.BACK, said=said)
    else:
        _end(trial, TrialDecision.ABANDONED, why)


def _cancel_checkups(trial: UpgradeTrial) -> None:
    measured = (
        trial.measured_before, trial.measured_after, trial.measured_before_again,
        trial.measured_after_again,
    )  # fmt: skip
    for benchmark in measured:
        if benchmark is not None and benchmark.is_open:
            commands.stop(benchmark, by=None)
    for canary in (trial.answers_before, trial.answers_after):
        if canary is not None and canary.is_open:
            canaries.stop(canary, by=None)


def _move(trial: UpgradeTrial, step: TrialStep, **more: object) -> None:
    """To the next step, unless somebody has moved it meanwhile."""
    still = UpgradeTrial.objects.filter(pk=trial.pk, step=trial.step)
    if still.update(step=step, moved_at=timezone.now(), **more) and trial.server is not None:
        _tell(trial.server)


def _end(
    trial: UpgradeTrial, decision: TrialDecision, said: str, *, by: User | None = None
) -> None:
    _move(
        trial, TrialStep.OVER, decision=decision, said=said, ended_at=timezone.now(),
        decided_by=by or trial.decided_by,
    )  # fmt: skip
    if not trial.has_loaded:
        _cancel_checkups(trial)
    AuditEntry.note(by, "end trial", trial.server_name, decision=decision.label)


def _wake(server: Server) -> None:
    transaction.on_commit(lambda: events.wake_watcher(server.box.slug, events.Topic.RUNS))


def _tell(server: Server) -> None:
    transaction.on_commit(lambda: events.publish_change("server", server.pk))
    transaction.on_commit(lambda: events.publish_change("benchmarks"))
