"""Health of runs: notes of ready ones, their smoke test, and the stop of a load that would exhaust memory."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers import events
from servers.host.runs.questions import CompletionResult
from servers.judge.memory.pools import GpuRoom
from servers.judge.runs.health import SERVES_OTHERS, Condition, HealthVerdict, describe_other_names
from servers.judge.runs.smoke_test import FirstAnswer, slowness
from servers.launch import numbers
from servers.lifecycle.profiles import checks
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import reconcile, restart_policy, starts
from servers.lifecycle.runs.ownership import verb
from servers.lifecycle.runs.reconcile import advance
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


def note_served_names(run: Run, others: Sequence[str]) -> None:
    """Tell of a start whose address serves other models: it would seem to load for ever."""
    said = describe_other_names(others, run.served_name)
    is_ours = run.status_message.startswith(SERVES_OTHERS)
    if said == run.status_message or not (said or is_ours):
        return
    if Run.objects.filter(pk=run.pk, state=RunState.STARTING).update(status_message=said):
        run.status_message = said
        events.publish_change("server", run.server_id)


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
    shown = numbers.format_duration(limit)
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
        text=starts.mask_secrets(run, answer.text),
        error=starts.mask_secrets(run, answer.error),
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


WHY = (
    "inferdash stopped it before the machine ran out: one that shares its memory with its GPU "
    "hangs then until its power is cut. Give it less (the profile's page says which flag helps), or "
    "stop what else runs; INFERDASH_LOADING_STOP_GIB moves the limit."
)


def foresee_free(run: Run) -> int | None:
    """Bytes that the machine should have left once it is ready; None where nobody can say."""
    box, free = run.server.box, run.start.around.get("free")
    card = next(iter(box.gpus or ()), None)
    if card is None or not card.get("total") or not isinstance(free, int):
        return None
    total = int(card["total"])
    room = GpuRoom(
        index=card["index"], total=total, free=free, is_unified=True, others=total - free
    )
    context = LaunchContext.of_server(run.server, run.launch)
    found = checks.estimate_fit(replace(context.subject, rooms=(room,)), context)
    return free - found.takes if found is not None and found.takes else None


def note_strain(run: Run, says: str) -> None:
    """Say on the run that memory runs low; "" when it does not any more."""
    still = Run.objects.filter(pk=run.pk, state=RunState.STARTING).exclude(
        start__memory_warning=says
    )
    if still.write(start__memory_warning=says):
        events.publish_change("server", run.server_id)


@verb
def stop_load(run: ManagedRun, /, says: str) -> bool:
    """Kill it now: an engine that loads does not hear SIGTERM for minutes. False if it is over."""
    loading = Run.objects.filter(pk=run.pk, state=RunState.STARTING, wanted=DesiredState.RUNNING)
    now = timezone.now()
    given_up = f"{says} {WHY}"
    if not loading.update(wanted=DesiredState.STOPPED, given_up=given_up, stop_requested_at=now):
        return False
    run.refresh_from_db()
    events.publish_change("server", run.server_id)
    advance(run)
    # The usual grace is for engines that serve.
    Run.objects.filter(pk=run.pk, state=RunState.STOPPING).update(kill_at=now)
    run.refresh_from_db()
    advance(run)
    return True
