"""Commands on jobs: what people ask of them, written into rows that the box's watcher obeys."""

from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from servers import events
from servers.lifecycle.links import sealing
from servers.models import AuditEntry, Benchmark, Box, Job, ProfileVersion, Run, User
from servers.models.jobs import OF_IMAGES, OVER, DesiredJobState, JobKind, JobState
from servers.models.runs.run import RunState

_UNBEGUN = "Cancelled before it had begun."


def ask[J: Job](
    model: type[J],
    box: Box,
    kind: JobKind,
    *,
    by: User | None,
    what: str,
    target: str = "",
    params: dict[str, Any] | None = None,
    version: ProfileVersion | None = None,
    **audit: Any,
) -> J | None:
    """None where somebody wants the same already."""
    try:
        with transaction.atomic():
            job: J = model.objects.create(
                box=box, kind=kind, asked_by=by, what=what[:500], target=target,
                params=params or {}, version=version,
            )  # fmt: skip
            sealing.seal_for(box)
            AuditEntry.note(by, job.verb, job.subject, box=box.slug, **audit)
    except IntegrityError:
        return None
    tell(job)
    return job


def ask_again[J: Job](job: J, *, by: User) -> J | None:
    """The same once more, after it has ended."""
    dismiss(job)
    once = ("despite", "for_start")
    params = {name: value for name, value in job.params.items() if name not in once}
    return ask(
        type(job), job.box, JobKind(job.kind), by=by, what=job.what, target=job.target,
        params=params, version=job.version,
    )  # fmt: skip


def want(job: Job, wanted: DesiredJobState, action: str, *, by: User | None, **params: Any) -> bool:
    """Whether it was open, and nobody had asked for this, or for its end, before."""
    mine = Job.objects.open().filter(pk=job.pk)
    changed = mine.exclude(wanted__in=(wanted, DesiredJobState.CANCELLED)).update(
        wanted=wanted, params=job.params | params, changed_at=timezone.now()
    )
    if changed:
        AuditEntry.note(by, action, job.subject, box=job.box.slug)
        tell(job)
    return bool(changed)


def cancel(job: Job, *, by: User | None) -> bool:
    """End it, if it has begun; whether it was still open."""
    action = f"cancel {job.kind}" + (" of image" if job.kind in OF_IMAGES else "")
    if not want(job, DesiredJobState.CANCELLED, action, by=by):
        return False
    # Nobody is at these, and their box may be silent for long.
    idle = Job.objects.filter(pk=job.pk, state__in=(JobState.ASKED, JobState.HELD))
    now = timezone.now()
    idle.update(state=JobState.CANCELLED, said=_UNBEGUN, ended_at=now, changed_at=now)
    return True


def go_on(job: Job, *, by: User | None) -> bool:
    """Do what it was held for all the same; whether it was held."""
    held = Job.objects.filter(pk=job.pk, state=JobState.HELD, wanted=DesiredJobState.GO)
    params = job.params | {"despite": True}
    now = timezone.now()
    if not held.update(state=JobState.ASKED, params=params, asked_by=by, changed_at=now):
        return False
    AuditEntry.note(by, f"{job.verb} despite", job.subject, held=job.said)
    tell(job)
    return True


def dismiss(job: Job) -> None:
    """Somebody has read what came of it: pages need not tell it any more."""
    ended = Job.objects.filter(pk=job.pk, state__in=OVER)
    ended.update(dismissed=True, changed_at=timezone.now())
    publish(job)


def may_change(job: Job, person: User) -> bool:
    """Whether they may cancel it, or have it done once more."""
    return person.may_administer if job.kind == JobKind.PRUNE else person.may_edit


def tell(job: Job) -> None:
    """The box's watcher, and whoever looks at it."""
    transaction.on_commit(partial(events.wake_watcher, job.box.slug, events.Topic.JOBS))
    transaction.on_commit(partial(publish, job))


def publish(job: Job) -> None:
    """That it is another than it was."""
    if job.kind == JobKind.DOWNLOAD:
        events.publish_change("downloads")
        return
    if job.kind in (JobKind.BENCHMARK, JobKind.CANARY):
        events.publish_change("benchmarks")
        for server in Benchmark.objects.filter(job=job).values_list("server", flat=True):
            events.publish_change("server", server)
        return
    if job.kind in OF_IMAGES:
        events.publish_change("jobs")
    if job.kind == JobKind.PULL:
        waiting = Run.objects.filter(start__pull=job.pk, state=RunState.PULLING)
        for server in waiting.values_list("server", flat=True):
            events.publish_change("server", server)
    if job.kind not in OF_IMAGES or "server" in job.params:
        events.publish_change("box", job.box_id)
