"""The GPU queue of a box: runs that wait for those in their way."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from servers import events
from servers.judge.runs.gpu_conflicts import GpuConflict
from servers.lifecycle.runs import free_memory, gpu_conflicts
from servers.models import AuditEntry, Box, Run


@dataclass(frozen=True, kw_only=True)
class QueueReason:
    """What a queued run waits for: a sentence, and the same to go on after a colon."""

    says: str
    why: str
    is_for_turn: bool  # somebody is in its way; False: it is only short of memory

    def __bool__(self) -> bool:
        return bool(self.says)

    def __str__(self) -> str:
        return self.says


def look(run: Run) -> QueueReason:
    """What it waits for now, if anything; whom it waits for is noted on its row.

    Raises CardsError when the box has not the GPUs.
    """
    found = gpu_conflicts.find_run_conflict(run)
    _note(run, found)
    if found.holders:
        return QueueReason(says=found.sentence(), why=found.why(), is_for_turn=True)
    short = free_memory.short_of(run)
    return QueueReason(says=short, why=short.rstrip("."), is_for_turn=False)


def _note(run: Run, found: GpuConflict) -> None:
    before, now = set(run.waits_for.values_list("pk", flat=True)), set(found.runs)
    if found.holders:
        run.turn_at = None
    elif run.turn_at is None and (before or run.waits):
        run.turn_at = timezone.now()
    Run.objects.filter(pk=run.pk).exclude(turn_at=run.turn_at).update(turn_at=run.turn_at)
    if before != now:
        run.waits_for.set(now)
        _tell(Run.objects.filter(pk__in=before | now))


def leave(run: Run) -> None:
    """It waits no more: it starts, or does not any longer."""
    waited_for = list(run.waits_for.all())
    if waited_for:
        run.waits_for.clear()
        _tell(waited_for)


def _tell(runs: Iterable[Run]) -> None:
    """Their cards say who waits for them."""
    for run in runs:
        events.publish_change("server", run.server_id)


def is_over(run: Run) -> bool:
    """Whether the time is over for which it was told to wait."""
    return run.waits_until is not None and timezone.now() >= run.waits_until


def given_up(run: Run, wait: QueueReason) -> dict[str, Any]:
    """What to note on a run that has waited for as long as it was told to."""
    leave(run)
    now = timezone.now()
    hours, minutes = divmod(round((now - run.created_at).total_seconds() / 60), 60)
    took = " ".join(f"{n} {unit}" for n, unit in ((hours, "h"), (minutes, "min")) if n)
    AuditEntry.note(None, "give up waiting", run.server, run=run.pk, why=wait.why)
    said = f"It waited {took or 'a moment'}, as it was told to, and was given up: {wait.why}."
    return {"ended_at": now, "status_message": said}


@contextmanager
def alone(run: Run) -> Iterator[bool]:
    """Whether nobody is in its way, while nobody else of its box can get there."""
    with transaction.atomic():
        Box.objects.select_for_update().get(pk=run.server.box_id)
        yield not gpu_conflicts.find_run_conflict(run).holders
