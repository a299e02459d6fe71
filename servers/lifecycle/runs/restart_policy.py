"""The restart policy: when a run is started again, crash loops, and reasons of an exit.

Docker's own restart policies stay off: they know neither of a person's stop nor of memory
that is still on its way back.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.host.docker.containers import Container
from servers.judge.external.engines import Origin
from servers.judge.memory import pools
from servers.lifecycle.profiles import checks
from servers.lifecycle.runs import commands
from servers.lifecycle.runs.ownership import require_managed, verb
from servers.models import Box, Run, Server
from servers.models.runs.run import ACTIVE, STEADY, DesiredState, ManagedRun, RunState
from servers.state import samples
from servers.state.samples import DiskFullError

log = logging.getLogger(__name__)

ALWAYS = "always"

# Seconds before the first, second, … try in a row; the last holds for all that follow.
PAUSES = (10, 60, 300, 600)
# Bytes: what else the machine does varies by so much.
NOISE = 6 * 2**30
GIB = 2**30


@verb
def plan(run: ManagedRun, /) -> dict[str, Any]:
    """What to note on a run that ends although nobody asked: when it starts again, or why not."""
    launch = run.version.launch
    # It was ended for being unhealthy, which says "started again" by itself.
    was_ill = bool(run.given_up and run.health.unhealthy_since and launch.restart_unhealthy)
    if not (launch.restart or was_ill) or run.stopped_by_id is not None:
        return {}
    if found := objection(run):
        return {"status_message": found}
    pause = PAUSES[min(run.next_try, len(PAUSES)) - 1]
    return {"restart_at": timezone.now() + timedelta(seconds=pause)}


def plan_after_boot(run: Run) -> dict[str, Any]:
    """What to note on a run that its box's restart has ended although it was wanted."""
    said = "The box was restarted."
    if run.is_watched:
        return {
            "restart_at": None,
            "status_message": f"{said} {Origin.from_json(run.start.origin).revived_by}.",
        }
    if not run.version.launch.start_with_box:
        why = "Its profile does not say that it starts with the box."
        return {"restart_at": None, "status_message": f"{said} {why}"}
    # A start that takes the box down with it would do so for ever: the budget always holds.
    if found := _objection(run, has_budget=True):
        return {"restart_at": None, "status_message": f"{said} {found}"}
    return {"restart_at": timezone.now(), "status_message": said}


def objection(run: Run) -> str:
    """Why it would not be started again if it ended now; "" if it would."""
    return _objection(run, has_budget=run.version.launch.restart != ALWAYS)


def _objection(run: Run, *, has_budget: bool) -> str:
    """Why it is not to be started again; "" if it is."""
    if has_budget and run.next_try > run.version.launch.restart_tries:
        times = "once" if run.plan.attempts == 1 else f"{run.plan.attempts} times in a row"
        return f"inferdash has started it again {times}, and does not try once more."
    if run.ready_at is None:
        found = checks.findings(run.launch, run.server.box, run.server.profile)
        for each in found:
            if each.severity == "error":
                return f"inferdash does not start it again: it is known to fail. {each.says}"
    return ""


def start_due(box: Box) -> None:
    """Start what is planned for now or earlier, unless the box's memory is not back yet."""
    due = Server.objects.filter(
        box=box, removed_at=None, run__restart_at__lte=timezone.now()
    ).select_related("box", "run__version", "run__plan", "run__started_by")
    # As they were started before: who was there first comes first.
    if not due.exists():
        return  # each second, nearly always
    for server in due.order_by("run__started_at", "run__pk"):
        run = server.run
        assert run is not None
        reason = _waits_for(run, box)
        if not reason:
            try:
                _start_again(require_managed(run))
            except DiskFullError as error:
                # It stays planned. The row cannot say so: it would have to be written.
                log.warning("%s is not started again yet: %s", server, error)
        elif reason != run.status_message:
            Run.objects.filter(pk=run.pk).exclude(restart_at=None).update(status_message=reason)
            events.publish_change("server", run.server_id)


def _waits_for(run: Run, box: Box) -> str:
    """What its end has not given back so far, on a box with one pool of memory for all."""
    if run.start.unattributed_at_start is None or was_before_boot(run, box.booted_at):
        return ""
    now = pools.compute_unheld(samples.newest(box.slug))
    if now is None:
        return f"It waits until {box} tells its memory again."
    more = now - run.start.unattributed_at_start
    if more <= NOISE:
        return ""
    return (
        f"It waits until memory is back: {more / GIB:.0f} GiB more than at its start are in use, "
        "and no GPU process holds them."
    )


def was_before_boot(run: Run, booted_at: datetime | None) -> bool:
    """Whether its container was started before the box was."""
    return bool(booted_at and run.started_at and run.started_at < booted_at)


def _start_again(run: ManagedRun) -> None:
    # A person's wish may have come at the moment of the end.
    not_stopped = Q(wanted=DesiredState.RUNNING) | ~Q(given_up="")
    planned = Run.objects.filter(
        not_stopped, pk=run.pk, stopped_by=None, restart_at__lte=timezone.now()
    )
    with transaction.atomic():
        if planned.update(restart_at=None, status_message=""):
            commands.start_again(run, why=run.failure or run.status_message)
    events.wake_watcher(run.server.box.slug, events.Topic.RUNS)


# Ends in a row that make a loop, and how long the oldest of them counts.
LOOP = 3
WINDOW = timedelta(hours=1)
# Lives that are looked at: more says no more.
MOST = 12


@dataclass(frozen=True, kw_only=True)
class Deaths:
    """Ends that nobody asked for, one after the other."""

    count: int = 0
    was_ready: bool = False  # one of them was ready before it ended
    last: datetime | None = None

    @property
    def is_loop(self) -> bool:
        return self.count >= LOOP


NONE = Deaths()


def count_crashes(server: Server) -> Deaths:
    """The latest ends in a row of this server. Whoever served for STEADY has recovered."""
    now = timezone.now()
    found: list[Run] = []
    for run in server.runs.order_by("-pk")[:MOST]:
        if run.state in ACTIVE:
            if run.ready_at and now - run.ready_at >= STEADY:
                return NONE
            continue
        is_unasked = run.state == RunState.FAILED and run.stopped_by_id is None
        if not is_unasked or run.ended_at is None or now - run.ended_at > WINDOW:
            break
        if run.ready_at and run.ended_at - run.ready_at >= STEADY:
            found.append(run)  # it was well until then, and its end is the first of them
            break
        found.append(run)
    return Deaths(
        count=len(found),
        was_ready=any(run.ready_at for run in found),
        last=found[0].ended_at if found else None,
    )


def explain_crash_loop(deaths: Deaths) -> str:
    """For the page of the run that goes on, or ended, after them."""
    return (
        f"It has ended {deaths.count} times in a row within an hour without a request to stop, and "
        "was started again each time."
    )


# What a container's init or shell ends with when it cannot run the program.
NO_PROGRAM = (126, 127)
SIGNALS = {1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS"}
SIGNALS |= {8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 13: "SIGPIPE", 15: "SIGTERM"}


# SIGINT and SIGTERM: somebody wanted it to end, with Docker or without.
_WANTED_ENDS = (130, 143)

REMOVED = "Its container was removed outside inferdash. Its log is kept as far as it was read."


@dataclass(frozen=True, kw_only=True)
class ExitJudgement:
    """What an end was, and one sentence for it."""

    state: RunState  # stopped or failed
    says: str
    is_sure: bool = True  # False: it may as well have been the other


def judge_exit(
    ready_at: datetime | None, container: Container, *, asked: bool | None
) -> ExitJudgement:
    """What an end was that nobody asked inferdash for, whoever owns the container.

    `asked`: somebody had Docker end it; None: nobody can tell, as Docker does not remember.
    """
    why = why_ended(ready_at, container)
    code = container.exit_code
    if asked:
        with_code = "" if code is None else f" It ended with exit code {code}."
        return ExitJudgement(
            state=RunState.STOPPED,
            says=f"Somebody has stopped its container outside inferdash, with Docker.{with_code}",
        )
    if container.oom_killed:
        return ExitJudgement(state=RunState.FAILED, says=why)
    if code in _WANTED_ENDS:
        says = (
            f"{SIGNALS[code - 128]} from outside inferdash has ended it. Who sent it is not known."
        )
        return ExitJudgement(state=RunState.STOPPED, says=says, is_sure=False)
    if asked is None and code == 0 and ready_at is not None:
        says = (
            "It ended with exit code 0 while nobody looked: whether somebody has stopped it, or it "
            "ended by itself, is not known."
        )
        return ExitJudgement(state=RunState.STOPPED, says=says, is_sure=False)
    if asked is None:
        why += " Whether it was stopped through Docker is not known."
    return ExitJudgement(state=RunState.FAILED, says=why, is_sure=asked is not None)


def why_ended(ready_at: datetime | None, container: Container) -> str:
    """One sentence on an end that nobody asked for.

    An exit code of 0 is no success here: SGLang as PID 1 exits 0 when its start fails,
    vLLM when its engine dies while serving.
    """
    when = "while it was serving" if ready_at else "before it was ready"
    code = container.exit_code
    if container.oom_killed:
        return (
            f"The kernel killed the engine {when}: it wanted more memory than its container may "
            "use (OOMKilled). This is main memory, not GPU memory."
        )
    if code is None:
        return f"The engine ended {when}; Docker does not say how. {container.error}".strip()
    if code in NO_PROGRAM and not ready_at:
        return (
            f"The image does not contain the program that the profile starts (exit code {code}). "
            "Check that the engine fits the image, and the entrypoint."
        )
    if code > 128 and (name := SIGNALS.get(code - 128)):
        return f"The engine was ended by {name} (exit code {code}) {when}, not by inferdash."
    return f"The engine ended by itself {when}, with exit code {code}."
