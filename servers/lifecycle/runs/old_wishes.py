"""Wishes of people that a box finds when it comes back: the old ones are asked again.

Who has clicked Start an hour ago may have helped themselves otherwise by now. Stops are always
carried out, and what was wanted before the box went away is wanted as before.
"""

from datetime import datetime, timedelta

from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from servers import events
from servers.lifecycle.benchmarks import trials
from servers.models import Box, Run
from servers.models.jobs import Job, JobState
from servers.models.runs.run import DesiredState, RunState

OLD = timedelta(minutes=10)


def put_back(box: Box, *, away_since: datetime) -> None:
    """Before anything of this box is begun after its return."""
    now = timezone.now()
    # By the hub's clock, as it is written when something was asked for.
    asked_between = (away_since, Now() - OLD)
    said = (
        f"It was asked for while {box} was away, more than {OLD.seconds // 60} minutes before it "
        "came back, so it was not done."
    )
    again = f"{said} Start it again if it is still wanted."
    mine = Run.objects.active().filter_managed().filter(server__box=box)
    queued = mine.filter(state=RunState.QUEUED, wanted=DesiredState.RUNNING)
    changed = set()
    for run in queued.filter(created_at__range=asked_between):
        # Also where it was to be waited for: nobody waits any more.
        if Run.objects.filter(pk=run.pk, wanted=DesiredState.RUNNING).move(
            old=[RunState.QUEUED], new=RunState.STOPPED, ended_at=now, status_message=again
        ):
            changed.add(run.server_id)
    # The stop of a restart is carried out, its start is not.
    restarts = mine.exclude(restart_for=None).filter(stop_requested_at__range=asked_between)
    changed |= set(restarts.values_list("server", flat=True))
    restarts.update(restart_for=None, status_message=again)
    mine.filter(wake_wanted_at__range=asked_between).update(wake_wanted_at=None)
    for server in changed:
        events.publish_change("server", server)
    is_old = Q(box=box, state=JobState.ASKED, asked_at__range=asked_between)
    for job in Job.objects.filter(is_old).exclude(asked_by=None):
        job.move(JobState.CANCELLED, said=said)
    trials.call_off_old(
        box, asked_between=asked_between, said=f"{said} Try it again if it is still wanted."
    )
