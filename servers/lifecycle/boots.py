"""What becomes of the servers that were wanted when their box was restarted."""

from datetime import datetime, timedelta

from django.db import transaction

from servers import live
from servers.lifecycle import creation, moves, restarts
from servers.models import Box, Run
from servers.models.run import State, Wanted

# A box that goes down ends its containers a while before the watcher.
SHUTDOWN = timedelta(minutes=2)


def note_boot(box: Box, boot_id: str, booted_at: datetime, *, seen_before: datetime | None) -> None:
    """Take up what a restart of the box has ended; a boot that was seen before changes nothing.

    To be called before anything else looks at the box's runs, which would take the restart for
    a failure. `seen_before` is the watcher's last sign of life before this one. Raises
    ContainerError while Docker is not there yet: nothing is known then.
    """
    if box.boot_id == boot_id:
        return
    if box.boot_id:
        for server in box.servers.filter(removed_at=None).select_related("run__version", "box"):
            if server.run is not None and server.run.wanted == Wanted.RUNNING:
                _take_up(server.run, booted_at, seen_before)
    box.boot_id, box.booted_at = boot_id, booted_at
    Box.objects.filter(pk=box.pk).update(boot_id=boot_id, booted_at=booted_at)


def _take_up(run: Run, booted_at: datetime, seen_before: datetime | None) -> None:
    if not restarts.was_before_boot(run, booted_at):
        return
    if run.state in (State.STARTING, State.READY):
        container = creation.docker().inspect(run.container_id)
        if container is None or container.has_ended:
            tail = creation.docker().tail(container.id, moves.TAIL) if container else []
            with transaction.atomic():
                if moves.went_down_with_box(run, container, tail):
                    _note(run)
    elif run.state == State.FAILED and run.stopped_by_id is None:
        # inferdash saw it end, and was itself ended before it could know why.
        went_down = run.ended_at and seen_before and run.ended_at >= seen_before - SHUTDOWN
        if went_down or run.restart_at is not None:
            _note(run)


def _note(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(**restarts.plan_after_boot(run))
    live.server_changed(run.server_id)
