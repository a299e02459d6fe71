"""Retention of logs: the beginning and end of each, nothing of old ones.

What is cut out leaves one chunk with a note that stands for all of its lines, so that every other
line keeps its number.
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet, Sum
from django.utils import timezone

from servers import events
from servers.models import Box, LogChunk, Run
from servers.models.runs.run import ENDED
from servers.watcher.logs.records import note, stamp

log = logging.getLogger(__name__)

# Cut only when there is so much to cut: every cut reads what it removes.
_SLACK = 4 * 2**20
_MIB, _GIB = 2**20, 2**30
# No note is larger: what is no larger is one, or not worth removing.
_NOTE = 500


def tidy(box: Box) -> None:
    """Bring all logs of this box's runs within the bounds of the settings."""
    runs = Run.objects.filter(server__box=box)
    if settings.LOG_TAIL:
        most = settings.LOG_HEAD + settings.LOG_TAIL + _SLACK
        for run in runs.filter(log_size__gt=most):
            shorten(run.pk)
    _drop_old(box)


def shorten(run_id: int) -> None:
    """Cut the middle out of a log, so that its beginning and its end stay."""
    head, tail = settings.LOG_HEAD, settings.LOG_TAIL
    why = (
        f"of a log, inferdash keeps the first {head // _MIB} MiB and the last {tail // _MIB} MiB "
        "(INFERDASH_LOG_HEAD_MIB, INFERDASH_LOG_TAIL_MIB)"
    )
    _cut(run_id, head, tail, why)


def _drop_old(box: Box) -> None:
    """The logs of ended runs that are too old, and the oldest where all are too large."""
    newest = Run.objects.filter(server__box=box).order_by().values("server")
    stay = newest.annotate(last=Max("pk")).values("last")
    candidates = (
        Run.objects.filter(server__box=box, state__in=ENDED, log_complete=True, log_size__gt=_NOTE)
        .exclude(pk__in=stay)
        .order_by("ended_at")
    )
    if settings.LOG_DAYS:
        before = timezone.now() - timedelta(days=settings.LOG_DAYS)
        for run in candidates.filter(ended_at__lt=before):
            _drop(run.pk, f"it was older than {settings.LOG_DAYS} days (INFERDASH_LOG_DAYS)")
    if settings.LOG_TOTAL:
        size = Run.objects.aggregate(size=Sum("log_size"))["size"] or 0
        for run in candidates.iterator():
            if size <= settings.LOG_TOTAL:
                return
            size -= run.log_size
            most = f"{settings.LOG_TOTAL // _GIB} GiB (INFERDASH_LOG_TOTAL_GIB)"
            _drop(run.pk, f"all logs together were larger than {most}")


def _drop(run_id: int, why: str) -> None:
    _cut(run_id, 0, 0, why)


@transaction.atomic
def _cut(run_id: int, head: int, tail: int, why: str) -> None:
    """Remove the chunks between the first `head` and the last `tail` bytes; 0 and 0: all."""
    run = Run.objects.select_for_update().get(pk=run_id)
    chunks = LogChunk.objects.filter(run_id=run_id)
    sizes = list(chunks.order_by("first").values_list("first", "count", "size"))
    between = _find_middle(sizes, head, tail)
    if not between:
        return
    first, last = between[0][0], between[-1][0] + between[-1][1] - 1
    removed = chunks.filter(first__gte=first, first__lte=last)
    earliest, latest = _stamps(run.log_gap, removed)
    words = (
        f"… lines {first:,} to {last:,} were removed on {datetime.now(UTC):%Y-%m-%d}: {why}."
        if head or tail
        else f"… the log of this run ({last - first + 1:,} lines) was removed on "
        f"{datetime.now(UTC):%Y-%m-%d}: {why}."
    )
    removed.delete()
    kept = LogChunk.from_records(run_id, first, [note(latest, words)], count=last - first + 1)
    kept.save()
    run.log_gap = {"first": first, "last": last, "from": earliest, "to": latest}
    run.log_size += kept.size - sum(size for _first, _count, size in between)
    run.save(update_fields=["log_gap", "log_size"])
    log.info("Log of run %s: %s", run_id, words)
    transaction.on_commit(lambda: events.publish_log_growth(run_id, run.log_lines))


def _find_middle(
    sizes: list[tuple[int, int, int]], head: int, tail: int
) -> list[tuple[int, int, int]]:
    start, end = 0, len(sizes)
    while start < end and head > 0:
        head -= sizes[start][2]
        start += 1
    while end > start and tail > 0:
        end -= 1
        tail -= sizes[end][2]
    return sizes[start:end]


def _stamps(gap: dict[str, Any] | None, removed: QuerySet[LogChunk]) -> tuple[str, str]:
    """The earliest and the latest moment of what is removed: two streams are not quite in order."""
    found = [gap["from"], gap["to"]] if gap else []
    for chunk in removed.iterator(chunk_size=16):
        stamps = [stamp(record) for record in chunk.plain().split(b"\n")]
        found += [min(stamps), max(stamps)]
    return min(found), max(found)
