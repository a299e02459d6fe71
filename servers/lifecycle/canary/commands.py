"""Commands on canaries: what people ask of them, and what inferdash asks by itself."""

from django.db import transaction
from django.utils import timezone

from servers import events
from servers.judge.canary.items import get_version, load_sets
from servers.lifecycle.benchmarks.subject import explain_busy, refuse
from servers.lifecycle.jobs import commands
from servers.models import AuditEntry, BenchmarkJob, Box, Canary, CanaryJob, Run, Server, User
from servers.models.canary import CanaryOutcome
from servers.models.jobs import JobKind


class CanaryRequestError(Exception):
    """A canary that cannot be done; the text says why."""


def ask(server: Server, canary_set: str, *, by: User | None, gives_way: bool = True) -> Canary:
    """Have a server's answers checked by its box; `by` None: its profile wants it.

    One that does not give way to people's requests is an editor's to ask for. Raises
    CanaryRequestError.
    """
    if not gives_way and (by is None or not by.may_edit):
        raise CanaryRequestError(
            "Only an editor may have a canary that does not give way to other people."
        )
    if canary_set not in load_sets():
        known = ", ".join(load_sets())
        raise CanaryRequestError(f"There is no canary “{canary_set[:40]}”, only {known}.")
    run = server.run
    if why := refuse(run):
        raise CanaryRequestError(f"The answers of {server.slug} cannot be checked. {why}")
    assert run is not None
    params = {"run": run.pk, "canary_set": canary_set, "gives_way": gives_way}
    with transaction.atomic():
        Box.objects.select_for_update().get(pk=server.box_id)  # two browsers at once
        job = None
        if not BenchmarkJob.objects.open().filter(box=server.box).exists():
            job = commands.ask(
                CanaryJob, server.box, JobKind.CANARY, by=by, what=server.slug, params=params,
                canary_set=canary_set,
            )  # fmt: skip
        if job is None:
            raise CanaryRequestError(explain_busy(server.box))
        return Canary.objects.create(
            box=server.box, server=server, server_name=server.slug, run=run, version=run.version,
            job=job, by=by, set_key=canary_set, set_version=get_version(),
            model=run.launch.checkpoint[:300],
        )  # fmt: skip


def stop(canary: Canary, *, by: User | None) -> bool:
    """Whether it was still going on. What was answered is kept."""
    return canary.job is not None and commands.cancel(canary.job, by=by)


def accept(canary: Canary, *, by: User) -> bool:
    """Take what has changed for right: the next canaries are compared with this one. False for one
    that has no answers to compare with, or is accepted already."""
    changed = (CanaryOutcome.CHANGED, CanaryOutcome.WRONG)
    mine = Canary.objects.filter(pk=canary.pk, verdict__in=changed, accepted_at=None)
    if not mine.exclude(items=[]).update(accepted_by=by, accepted_at=timezone.now()):
        return False
    AuditEntry.note(by, "accept answers", canary.server_name, box=canary.box.slug)
    events.publish_change("benchmarks")
    return True


def needs_canary(run: Run) -> bool:
    """Whether its profile wants one after a start that changed something, and it is such a start
    that has none yet."""
    if not run.launch.check_answers or refuse(run) or run.canaries.exists():
        return False
    last = Canary.objects.good().filter(server=run.server_id).without_replies().first()
    before = last.run if last else None
    return before is None or (before.image_id, before.version_id, before.start.engine_version) != (
        run.image_id, run.version_id, run.start.engine_version
    )  # fmt: skip
