"""The tracker of starts: phases read from logs, downloads metered."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone

from servers import events
from servers.host.files.paths import PathError
from servers.host.weights import checkpoints
from servers.judge.logs.phases.progress import PhaseProgress
from servers.judge.logs.phases.reader import Reader
from servers.judge.runs import health, start_progress
from servers.judge.runs.limits import LimitsError
from servers.launch.commandline.clusters import read_rank
from servers.launch.engines.placement import VolumeError
from servers.lifecycle.runs import creation, starts
from servers.models import Box, LogChunk, Run, RunHealth, RunStart
from servers.models.logs import NOTE
from servers.models.runs.run import ENDED, RunState

EVERY = 5.0  # seconds between two looks
# Less is a file of the tokenizer, or somebody else's.
GROWTH = 1 << 20  # bytes
# A download that does not grow for so long is over, or stands still: its phase says so no more.
STILL = 30.0  # seconds
# Until a line proves a later one.
BEFORE_WEIGHTS = ("", "starting", "connecting", "downloading", "loading")


@dataclass(kw_only=True)
class _FolderSize:
    at: float  # time.monotonic()
    seen: datetime
    size: int
    grew: datetime  # the last time that it grew
    grew_at: float
    total: int | None = None


class DownloadMeter:
    def __init__(self) -> None:
        self._looks: dict[int, _FolderSize] = {}

    def forget(self, run: Run) -> None:
        self._looks.pop(run.pk, None)

    def look(self, run: Run, progress: PhaseProgress) -> None:
        """Measure it every few seconds, until the engine reads the weights."""
        launch = run.launch
        box = run.server.box
        if not (launch.mount_hf_cache and box.hf_cache) or launch.checkpoint.startswith("/"):
            return
        if progress.phase not in BEFORE_WEIGHTS or progress.bars:
            self._end(run)
            return
        before = self._looks.get(run.pk)
        now = time.monotonic()
        if before is not None and now - before.at < EVERY:
            return
        try:
            hub, files = creation.hub(box), creation.box_files()
        except (VolumeError, PathError, LimitsError, OSError):
            return  # it is not known where it lies, or whether one may look: a start says so
        size = checkpoints.read_cache_size(hub, launch.checkpoint, files) or 0
        seen = timezone.now()
        if before is None:
            self._looks[run.pk] = _FolderSize(at=now, seen=seen, size=size, grew=seen, grew_at=now)
            return
        if size - before.size >= GROWTH:
            before.total = before.total or checkpoints.sum_cache_sizes(
                hub, launch.checkpoint, files, launch.revision
            )
            _grew(run, before, size=size, seconds=now - before.at, seen=seen)
            before.grew, before.grew_at = seen, now
        elif now - before.grew_at > STILL:
            _end(run, before.grew)
        before.at, before.seen, before.size = now, seen, size

    def _end(self, run: Run) -> None:
        look = self._looks.pop(run.pk, None)
        if look is not None:
            _end(run, look.grew)


def _grew(run: Run, before: _FolderSize, *, size: int, seconds: float, seen: datetime) -> None:
    new: dict[str, Any] = {
        "download_began_at": run.start.download_began_at or before.seen,
        "download_ended_at": None,
        "download_size": size,
        "download_total": before.total,
        "download_rate": (size - before.size) / seconds,
        "last_output_at": seen,
    }
    _keep(run, new)


def _end(run: Run, at: datetime) -> None:
    if run.start.download_began_at is not None and run.start.download_ended_at is None:
        _keep(run, {"download_ended_at": at, "download_rate": None})


def _keep(run: Run, new: dict[str, Any]) -> None:
    for name, value in new.items():
        setattr(run.start, name, value)
    RunStart.objects.filter(run=run.pk).update(**new)


# At once: the tick in which it is done asks engines, too.
MOST_LINES, MOST_CHUNKS = 20_000, 32
# So long after it was ready by its health path, its log may still say so itself.
AFTERWARDS = timedelta(minutes=1)
# What a run that ended in its start wrote last is read within this time.
CLOSING = timedelta(hours=1)
EARLIER_RUNS = 5
# What reading a log changes.
READ = ["phases_read", "reader", "last_output_at", "usual_phases"]

type Shown = tuple[object, ...]


class StartTracker:
    def __init__(self) -> None:
        self._told: dict[int, Shown] = {}
        self._downloads = DownloadMeter()
        self._stuck: dict[int, str] = {}  # what was last told of it
        self._reading = threading.Lock()

    def read_on(self, box: Box) -> None:
        """Read what logs of starts have grown by, and tell of it: the page shows both beside each
        other. Asks no engine and measures nothing, so that it waits for nobody."""
        unread = Run.objects.filter(
            server__box=box, state=RunState.STARTING, log__lines__gt=F("start__phases_read")
        )
        if not unread.exists():
            return
        with self._reading:
            # Read under the lock: the other reader may have been here since.
            for run in unread.select_related("version", "server__box", "start", "log"):
                if not run.start.reader:
                    _begin(run)
                read(run)
                self._tell(run)

    def look(self, run: Run) -> None:
        """Go on in its log, and nudge its viewers when something that they see of it changed."""
        if run.state not in (RunState.STARTING, RunState.READY):
            return
        if run.state == RunState.READY and not _may_still_say(run):
            self._forget(run)
            return
        with self._reading:
            run.log.refresh_from_db(fields=["lines"])
            run.start.refresh_from_db(fields=READ)
            if not run.start.reader:
                _begin(run)
            read(run)
        if run.state == RunState.STARTING:
            self._downloads.look(run, starts.read_progress(run))
            with self._reading:
                self._tell(run)

    def judge(self, run: Run, sample: Mapping[str, Any]) -> None:
        """Note since when the run's GPUs only spin. A ready one must owe its callers tokens."""
        cards = health.cards_of(sample, run.container_id)
        is_owing = bool(run.health.requests_running) and run.health.tokens_per_second == 0
        can_be = run.state == RunState.STARTING or (run.state == RunState.READY and is_owing)
        if run.is_watched and (rank := read_rank(run.version.launch)) and rank.follows:
            can_be = False  # it answers nobody, so that it is never seen to be ready
        is_fresh = sample.get("stale_s") is None
        since = None
        if can_be and is_fresh and health.all_spin(cards):
            since = run.health.spins_since or timezone.now()
        if since != run.health.spins_since:
            run.health.spins_since, run.health.spinning_gpus = since, len(cards)
            new = {"spins_since": since, "spinning_gpus": len(cards)}
            RunHealth.objects.filter(run=run.pk).update(**new)
        words, _fix = starts.describe_deadlock(run, unified=run.server.box.is_unified)
        if self._stuck.get(run.pk, "") != words:
            self._stuck[run.pk] = words
            events.publish_change("server", run.server_id)

    def close(self, box: Box) -> None:
        """Read what failed starts wrote last: the phase in which they ended."""
        late = Run.objects.filter(
            server__box=box,
            state__in=ENDED,
            ready_at=None,
            started_at__isnull=False,
            ended_at__gt=timezone.now() - CLOSING,
            log__lines__gt=F("start__phases_read"),
        )
        for run in late.select_related("version", "start", "log"):
            self._forget(run)
            if read(run):
                events.publish_change("server", run.server_id)

    def _forget(self, run: Run) -> None:
        self._told.pop(run.pk, None)
        self._downloads.forget(run)

    def _tell(self, run: Run) -> None:
        start = starts.measure_progress(run, run.version.launch, unified=run.server.box.is_unified)
        if start is None:
            return
        shown: Shown = (
            start.words,
            start.percent,
            start.detail,
            start.minutes_left,
            start.quiet_minutes,
        )
        if self._told.get(run.pk) != shown:
            self._told[run.pk] = shown
            events.publish_change("server", run.server_id)


def read(run: Run) -> bool:
    """Read on from where the last look ended; return whether the phase or its percent changed."""
    if run.log.lines <= run.start.phases_read:
        return False
    lines = LogChunk.objects.lines(run.pk, run.start.phases_read, MOST_LINES, most=MOST_CHUNKS)
    if not lines:
        return False
    reader = (
        Reader.from_json(run.start.reader)
        if run.start.reader
        else Reader(run.version.launch.engine)
    )
    before = reader.progress
    reader.feed_all((each.number, each.text, each.at) for each in lines if each.stream != NOTE)
    new = {
        "phases_read": lines[-1].number,
        "reader": reader.to_json(),
        "last_output_at": start_progress.moment(lines[-1].at) or timezone.now(),
    }
    _keep(run, new)
    return _marks(before) != _marks(reader.progress)


def _marks(progress: PhaseProgress) -> tuple[str, int | None]:
    return progress.phase, progress.percent


def _may_still_say(run: Run) -> bool:
    return (
        run.ready_at is not None
        and timezone.now() - run.ready_at < AFTERWARDS
        and not starts.read_progress(run).is_ready
    )


def _begin(run: Run) -> None:
    """What its phases usually take: on this box if it ran here, else wherever it did."""
    reader = Reader(run.version.launch.engine).to_json()
    _keep(run, {"reader": reader, "usual_phases": usual_phases(run)})


def usual_phases(run: Run) -> dict[str, float]:
    good = (
        Run.objects.filter(version__profile=run.version.profile_id, ready_at__isnull=False)
        .exclude(pk=run.pk)
        .exclude(start__reader={})
        .order_by("-created_at")
    )
    here = list(good.filter(server__box=run.server.box_id)[:EARLIER_RUNS])
    earlier = here or list(good[:EARLIER_RUNS])
    return start_progress.usual(
        [start_progress.durations(starts.list_stretches(each)) for each in earlier]
    )
