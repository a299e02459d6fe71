"""The stop of a load that would exhaust unified memory, and its announcement."""

from dataclasses import replace

from django.utils import timezone

from servers import events
from servers.judge.memory.room import GpuRoom
from servers.lifecycle.profiles import checks
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs.ownership import verb
from servers.lifecycle.runs.reconcile import advance
from servers.models import Run
from servers.models.runs.run import DesiredState, ManagedRun, RunState

WHY = (
    "inferdash stopped it before the machine ran out: one that shares its memory with its GPU "
    "hangs then until its power is cut. Give it less (the profile's page says which flag helps), or "
    "stop what else runs; INFERDASH_LOADING_STOP_GIB moves the limit."
)


def foreseen(run: Run) -> int | None:
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


def strain(run: Run, says: str) -> None:
    """Say on the run that memory runs low; "" when it does not any more."""
    still = Run.objects.filter(pk=run.pk, state=RunState.STARTING).exclude(
        start__memory_warning=says
    )
    if still.write(start__memory_warning=says):
        events.publish_change("server", run.server_id)


@verb
def stop(run: ManagedRun, /, says: str) -> bool:
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
