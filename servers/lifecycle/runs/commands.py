"""Commands of people: start, stop, restart, remove. Rows only; these run in the web process."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from servers import events
from servers.lifecycle.links import sealing
from servers.lifecycle.runs.ownership import require_managed, verb
from servers.models import AuditEntry, Run, Server, User
from servers.models.runs.run import ACTIVE, DesiredState, ManagedRun, ManagedServer
from servers.state import samples


@dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """To wait until the GPUs are free. `until` is when to give up; None: never."""

    until: datetime | None = None


@verb
def start(
    server: ManagedServer,
    /,
    *,
    by: User | None,
    despite: str = "",
    like: Run | None = None,
    patience: QueueOptions | None = None,
    on_request: bool = False,
    placed: str = "",
) -> ManagedRun | None:
    """Queue a run of the server's current profile version, or exactly what `like` was.

    `despite` is somebody's reason to start it although something about it is known to fail.
    Without `patience` it starts at once, whoever is on its GPUs. `placed` says why on this box,
    where inferdash has chosen it.
    None when it already runs or is about to: a second click starts nothing.
    """
    version = server.profile.current
    if version is None:
        raise ValueError(f"Profile {server.profile.slug} has no version.")
    run = require_managed(
        Run.build(
            server=server,
            version=version,
            started_by=by,
            plan__overridden_errors=despite,
            plan__values=server.values,
        )
    )
    noted: dict[str, Any] = {}
    if placed:
        run.start.around, noted["placed"] = {"placed": placed}, placed
    if on_request:
        run.on_request, noted["for"] = True, "a request"
    if patience is not None:
        run.waits, run.waits_until = True, patience.until
        noted["waits"] = patience.until.isoformat(timespec="seconds") if patience.until else "on"
    if like is None:
        return queue(run, by=by, action="start", **noted)
    run.version, run.plan.values = like.version, like.plan.values
    run.plan.repeats, run.plan.pinned_image = like, like.image_id
    return queue(run, by=by, action="start as it ran", like=like.pk, **noted)


@verb
def start_again(last: ManagedRun, /, *, why: str) -> ManagedRun | None:
    """inferdash's own wish: the same version and the same image once more."""
    run = Run.build(
        server=last.server,
        version=last.version,
        plan__values=last.plan.values,
        started_by=last.started_by,
        plan__overridden_errors=last.plan.overridden_errors,
        plan__attempts=last.next_try,
        plan__pinned_image=last.image_id or last.plan.pinned_image,
        plan__repeats=last.plan.repeats,
        on_request=last.on_request,
    )
    return queue(
        require_managed(run), by=None, action="start again", why=why, **{"try": run.plan.attempts}
    )


@verb
def queue(run: ManagedRun, /, *, by: User | None, action: str, **detail: Any) -> ManagedRun | None:
    """Insert a run that people or inferdash want; None where its server has one already.

    Raises DiskFullError while the disk of the data folder has no room for it.
    """
    server = run.server
    require_managed(server)
    samples.check_room()
    try:
        with transaction.atomic():
            run.save()
            Server.objects.filter(pk=server.pk).update(run=run, removed_at=None, held_back_by=None)
            sealing.seal_for(server.box)
            AuditEntry.note(by, action, server, version=run.version.number, run=run.pk, **detail)
    except IntegrityError:
        # The database allows one active run a server. Anything else that is wrong with
        # the row must not pass for a second click.
        if not server.runs.active().exists():
            raise
        return None
    transaction.on_commit(lambda: events.publish_change("server", server.pk))
    if server.removed_at is not None:
        # It is back, and no open page has a card of it to renew.
        transaction.on_commit(partial(events.publish_change, "servers"))
    return run


@verb
def stop(
    run: ManagedRun, /, *, by: User | None, after_requests: bool = False, why: str = ""
) -> bool:
    """Ask for the end of a run, now or after the running requests; False if it has ended.

    `why` is inferdash's own reason.

    "Now" also overrides an earlier "after the requests"; never the other way round.
    """
    wish = DesiredState.DRAINED if after_requests else DesiredState.STOPPED
    before = (
        [DesiredState.RUNNING] if after_requests else [DesiredState.RUNNING, DesiredState.DRAINED]
    )
    asked = (
        Run.objects.active()
        .filter(pk=run.pk, wanted__in=before)
        .update(wanted=wish, stopped_by=by, stop_requested_at=timezone.now())
    )
    if not asked and by is not None:
        # inferdash is stopping it, or has given it up: nothing of its own is to follow either.
        asked = Run.objects.active().filter(pk=run.pk, stopped_by=None).update(stopped_by=by)
    if asked:
        _hold_back(run.server, by)
        reason = {"why": why} if why else {}
        AuditEntry.note(by, "stop", run.server, run=run.pk, when=wish.label, **reason)
        transaction.on_commit(lambda: events.publish_change("server", run.server_id))
    return bool(asked)


def _hold_back(server: Server, by: User | None) -> None:
    """Requests do not start what a person has stopped."""
    if by is not None and server.profile.launch.start_on_request:
        Server.objects.filter(pk=server.pk).update(held_back_by=by)


@verb
def call_off(server: ManagedServer, /, *, by: User | None) -> bool:
    """Stop what is not running yet: the start that inferdash has planned; False without one."""
    planned = server.runs.filter(pk__in=[server.run_id]).exclude(restart_at=None)
    off = planned.update(
        restart_at=None, status_message="", stopped_by=by, wanted=DesiredState.STOPPED
    )
    if off:
        _hold_back(server, by)
        AuditEntry.note(by, "stop", server, run=server.run_id, when="before it starts again")
        transaction.on_commit(lambda: events.publish_change("server", server.pk))
    return bool(off)


@verb
def restart(server: ManagedServer, /, *, by: User | None, despite: str = "") -> ManagedRun | None:
    """Stop the running run and let the next one follow, or start where none runs.

    `despite` is for the next one. Returns the run to be moved next.
    """
    run = server.runs.active().filter_managed().first()
    if run is None:
        return start(server, by=by, despite=despite)
    Run.objects.filter(pk=run.pk).write(restart_for=by, plan__restart_overridden_errors=despite)
    sealing.seal_for(server.box)
    stop(run, by=by)
    return run


@verb
def remove(server: ManagedServer, /, *, by: User | None) -> bool:
    """Take a server that does not run off the dashboard; its runs and their logs stay.

    False while it runs. The watcher deletes its last container.
    """
    with transaction.atomic():
        if server.runs.filter(state__in=ACTIVE).exists():
            return False
        Server.objects.filter(pk=server.pk).update(removed_at=timezone.now())
        AuditEntry.note(by, "remove", server)
    transaction.on_commit(partial(events.publish_change, "servers"))
    transaction.on_commit(lambda: events.wake_watcher(server.box.slug, events.Topic.RUNS))
    return True


@verb
def restore(server: ManagedServer, /, *, by: User | None) -> None:
    """Put a removed server back on the dashboard, with its runs. Its container stays deleted."""
    with transaction.atomic():
        if Server.objects.filter(pk=server.pk).exclude(removed_at=None).update(removed_at=None):
            AuditEntry.note(by, "restore", server)
            transaction.on_commit(partial(events.publish_change, "servers"))
