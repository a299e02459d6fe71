"""A run's GPU memory before its start and after its end."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.host.kernel import shm
from servers.judge.memory import release, release_words
from servers.judge.memory.release import Release, ReleaseLook
from servers.launch import durations
from servers.models import Box, Run
from servers.models.runs.run import ACTIVE, ENDED


def read_release(run: Run) -> Release:
    """What came back so far; an empty one until it has ended."""
    return Release.from_json(run.health.memory_after) if run.health.memory_after else Release()


def describe_release(run: Run) -> str:
    return release_words.sentence(read_release(run), now=timezone.now().timestamp())


def find_release_code(run: Run) -> str:
    """Of the first message of describe_release(); "" where there is none."""
    return release_words.find_code(read_release(run), now=timezone.now().timestamp())


def measure_before(
    run: Run, sample: Mapping[str, Any] | None, started_at: datetime | None
) -> dict[str, Any] | None:
    """What its GPUs had in use before its container was started; None where nobody looked then."""
    if sample is None or (started_at and sample["t"] > started_at.timestamp()):
        return None
    if any(card.get("kind") == "unified" for card in sample.get("gpus") or []):
        left = [vars(each) for each in shm.segments(settings.HOST_ROOT)]
        sample = {**sample, "shm": left}
    found = release.measure_before(sample, run.gpus, now=timezone.now().timestamp())
    if found is None:
        return None
    # What an earlier run has not given back yet is none of this one's, and may come back under it.
    waiting = Run.objects.filter(server__box=run.server.box, state__in=ENDED, released_at=None)
    for earlier in waiting.filter(start__memory_before__isnull=False).exclude(pk=run.pk):
        if read_release(earlier).outcome in ("", "releasing"):
            found = release.lower(found, earlier.start.memory_before)
    return found


def list_watched_runs(box: Box) -> list[Run]:
    """Runs whose memory somebody has to look at: those that have it, and those that had it."""
    has_ended = Q(state__in=ENDED, released_at=None)
    has_container = Q(state__in=ACTIVE) & ~Q(container_id="")
    with_memory = Run.objects.filter(server__box=box, start__memory_before__isnull=False)
    return with_memory.filter(has_ended | has_container).fetch_any()


def look(run: Run, snapshot: Mapping[str, Any], pids: Collection[int]) -> ReleaseLook | None:
    assert run.start.memory_before is not None
    return release.look(
        run.start.memory_before,
        snapshot,
        run.container_id or run.container_was,
        began=durations.to_timestamp(run.started_at),
        ended=durations.to_timestamp(run.ended_at),
        pids=pids,
        thresholds=settings.MEMORY_THRESHOLDS,
    )


def note(run: Run, seen: ReleaseLook | None, *, held: int | None) -> None:
    """Write down what a look at an ended run says. `held` is what it held before its end."""
    if run.ended_at is None or run.start.memory_before is None:
        return
    so_far = read_release(run) if run.health.memory_after else Release(held=held)
    now = timezone.now()
    ended = run.ended_at.timestamp()
    new = release.step(
        so_far,
        seen,
        run.start.memory_before,
        ended=ended,
        now=now.timestamp(),
        thresholds=settings.MEMORY_THRESHOLDS,
    )
    is_over = new.is_over or now.timestamp() - ended > release.REMEMBERED
    if new == so_far and not is_over:
        return
    fields = {"health__memory_after": new.to_json(), "released_at": now if is_over else None}
    if not Run.objects.filter(pk=run.pk, released_at=None).write(**fields):
        return
    if release_words.short(new) != release_words.short(so_far) or new.outcome != so_far.outcome:
        events.publish_change("server", run.server_id)
