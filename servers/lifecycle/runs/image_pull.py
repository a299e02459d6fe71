"""The pull that a start waits for: a job like any other, shared with whoever wants the same image."""

from django.db import transaction

from servers.host.images.registry import familiar
from servers.lifecycle.images import work
from servers.lifecycle.jobs import commands
from servers.lifecycle.runs.ownership import verb
from servers.models import ImageJob, Run, User
from servers.models.jobs import JobKind, JobState
from servers.models.runs.run import DesiredState, ManagedRun, RunState


@verb
def find_or_request(run: ManagedRun, /) -> ImageJob | None:
    """The job that the run waits for; None until another of the same name is out of the way."""
    job = run.start.pull
    # One that ended with its watcher says nothing of the image.
    if job is None or job.was_cut:
        job = _join(run)
    if job is not None and job.state == JobState.HELD:
        # Whoever starts it wants the image whatever speaks against it.
        commands.go_on(job, by=run.started_by)
    return job


def _join(run: ManagedRun) -> ImageJob | None:
    box, wanted = run.server.box, familiar(run.image_to_pull)
    mine = ImageJob.objects.open().filter(box=box, kind=JobKind.PULL, target=wanted)
    if not mine.exists():
        work.ask_for_start(box, wanted, by=run.started_by)
    with transaction.atomic():
        job = mine.select_for_update(of=("self",)).select_related("box").first()
        if job is None or job.cancel_requested:
            return None
        waits = Run.objects.filter(pk=run.pk, state=RunState.PULLING, wanted=DesiredState.RUNNING)
        if job.digest:
            # A newer build comes without its tag. While it is held, the tag cannot be pulled.
            if job.state == JobState.HELD and waits.exists():
                commands.go_on(job, by=run.started_by)
            return None
        if not waits.write(start__pull=job):
            _cancel_unless_awaited(job, by=run.stopped_by)
            return None
    commands.publish(job)
    return job


@verb
def let_go(run: ManagedRun, /) -> None:
    """Cancel the pull that only the start has asked for, unless others wait for it, too."""
    with transaction.atomic():
        mine = ImageJob.objects.open().filter(pk=run.start.pull_id or 0)
        job = mine.select_for_update(of=("self",)).select_related("box").first()
        if job is not None:
            _cancel_unless_awaited(job, by=run.stopped_by)


def _cancel_unless_awaited(job: ImageJob, by: User | None) -> None:
    is_awaited = Run.objects.filter(state=RunState.PULLING, start__pull=job).exists()
    if job.for_start and not is_awaited:
        commands.cancel(job, by=by)
