"""Health notes of a ready run, and its smoke test."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers import events
from servers.host.runs.questions import CompletionResult
from servers.judge.runs.health import Condition, HealthVerdict
from servers.judge.runs.smoke_test import FirstAnswer, slowness
from servers.launch import durations
from servers.lifecycle.runs import reconcile, restart_policy, secret_env, starts
from servers.models import Run, RunHealth
from servers.models.runs.run import DesiredState, ManagedRun, RunState, is_managed

# Earlier runs among which the last good answer is looked for.
EARLIER_RUNS = 10


def note(run: Run, verdict: HealthVerdict) -> None:
    """Keep what is known of its health; end it where its profile says so."""
    if verdict.condition is Condition.UNSURE:
        return
    is_ill = verdict.condition is Condition.UNHEALTHY
    new: dict[str, Any] = {
        # It may have been known before this watcher began to look.
        "unhealthy_since": (run.health.unhealthy_since or verdict.since) if is_ill else None,
        "unhealthy_because": verdict.because if is_ill else "",
        "slow_because": verdict.because if verdict.condition is Condition.SLOW else "",
    }
    if any(getattr(run.health, name) != value for name, value in new.items()):
        RunHealth.objects.filter(run=run.pk, run__state=RunState.READY).update(**new)
        for name, value in new.items():
            setattr(run.health, name, value)
        events.publish_change("server", run.server_id)
    if is_ill and is_managed(run):
        _end_if_wanted(run)


def _end_if_wanted(run: ManagedRun) -> None:
    limit = run.version.launch.restart_unhealthy
    if not limit or run.health.unhealthy_since is None or run.wanted != DesiredState.RUNNING:
        return
    if timezone.now() - run.health.unhealthy_since < timedelta(seconds=limit):
        return
    still = Run.objects.filter(pk=run.pk, state=RunState.READY, wanted=DesiredState.RUNNING)
    if objection := restart_policy.objection(run):
        # Dead it may still be looked at; stopped and not started again it would only be gone.
        if still.exclude(status_message=objection).update(status_message=objection):
            events.publish_change("server", run.server_id)
        return
    shown = durations.format_duration(limit)
    sentence = f"Restarted by inferdash: unhealthy for {shown}: {run.health.unhealthy_because}."
    asked = {"wanted": DesiredState.STOPPED, "stop_requested_at": timezone.now()}
    if still.update(given_up=sentence, **asked):
        run.refresh_from_db()
        events.publish_change("server", run.server_id)
        reconcile.advance(run)


def is_slow(run: Run, answer: CompletionResult) -> bool:
    """Whether its speed is worth a second question: a first one may compile all the way."""
    return bool(slowness(answer.rate, run.version.launch.expected, _rate_before(run)))


def keep_first_answer(run: Run, answer: CompletionResult, *, alone: bool) -> None:
    """Judge and keep how it answered, unless somebody has stopped it meanwhile."""
    answer = replace(
        answer,
        text=secret_env.mask_secrets(run, answer.text),
        error=secret_env.mask_secrets(run, answer.error),
    )
    launch = run.version.launch
    found = FirstAnswer.judge(
        answer,
        launch.expected,
        before=_rate_before(run),
        alone=alone,
        lacks_gpus=launch.gpus != "none" and "no_gpu" in starts.read_progress(run).facts,
    )
    still = Run.objects.filter(pk=run.pk, state=RunState.READY, wanted=DesiredState.RUNNING)
    if still.write(health__first_answer=found.to_json()):
        events.publish_change("server", run.server_id)


def _rate_before(run: Run) -> float | None:
    """Tokens a second of the profile's last good first answer on this box; None: there is none."""
    earlier = Run.objects.filter(
        version__profile=run.version.profile_id, server__box=run.server.box_id, pk__lt=run.pk
    ).exclude(health__first_answer={})
    for each in earlier.order_by("-pk").values_list("health__first_answer", flat=True)[
        :EARLIER_RUNS
    ]:
        rate = each.get("rate")
        if isinstance(rate, float) and not each["remarks"] and not each["error"]:
            return rate
    return None
