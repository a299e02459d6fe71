"""The restart policy: when a run is started again, how often, and why not.

Docker's own restart policies stay off: they know neither of a person's stop nor of memory
that is still on its way back.
"""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.judge.memory import available
from servers.lifecycle.profiles import checks
from servers.lifecycle.runs import commands
from servers.models import Box, Run, Server
from servers.models.people.data_disk import DiskFullError
from servers.models.runs.run import DesiredState
from servers.state import box_samples

log = logging.getLogger(__name__)

ALWAYS = "always"

# Seconds before the first, second, … try in a row; the last holds for all that follow.
PAUSES = (10, 60, 300, 600)
# Bytes: what else the machine does varies by so much.
NOISE = 6 * 2**30
GIB = 2**30


def plan(run: Run) -> dict[str, Any]:
    """What to note on a run that ends although nobody asked: when it starts again, or why not."""
    if run.is_watched:
        return {}
    launch = run.version.launch
    # It was ended for being unhealthy, which says "started again" by itself.
    was_ill = bool(run.given_up and run.unhealthy_since and launch.restart_unhealthy)
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
        return {"restart_at": None, "status_message": f"{said} {run.came_from.revived_by}."}
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
        times = "once" if run.tries == 1 else f"{run.tries} times in a row"
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
    ).select_related("box", "run__version", "run__started_by")
    # As they were started before: who was there first comes first.
    if not due.exists():
        return  # each second, nearly always
    for server in due.order_by("run__started_at", "run__pk"):
        run = server.run
        assert run is not None
        reason = _waits_for(run, box)
        if not reason:
            try:
                _start_again(run)
            except DiskFullError as error:
                # It stays planned. The row cannot say so: it would have to be written.
                log.warning("%s is not started again yet: %s", server, error)
        elif reason != run.status_message:
            Run.objects.filter(pk=run.pk).exclude(restart_at=None).update(status_message=reason)
            events.publish_change("server", run.server_id)


def _waits_for(run: Run, box: Box) -> str:
    """What its end has not given back so far, on a box with one pool of memory for all."""
    if run.unattributed_at_start is None or was_before_boot(run, box.booted_at):
        return ""
    now = available.unheld(box_samples.newest(box.slug))
    if now is None:
        return f"It waits until {box} tells its memory again."
    more = now - run.unattributed_at_start
    if more <= NOISE:
        return ""
    return (
        f"It waits until memory is back: {more / GIB:.0f} GiB more than at its start are in use, "
        "and no GPU process holds them."
    )


def was_before_boot(run: Run, booted_at: datetime | None) -> bool:
    """Whether its container was started before the box was."""
    return bool(booted_at and run.started_at and run.started_at < booted_at)


def _start_again(run: Run) -> None:
    # A person's wish may have come at the moment of the end.
    not_stopped = Q(wanted=DesiredState.RUNNING) | ~Q(given_up="")
    planned = Run.objects.filter(
        not_stopped, pk=run.pk, stopped_by=None, restart_at__lte=timezone.now()
    )
    with transaction.atomic():
        if planned.update(restart_at=None, status_message=""):
            commands.start_again(run, why=run.failure or run.status_message)
    events.wake_watcher(run.server.box.slug, events.Topic.RUNS)
