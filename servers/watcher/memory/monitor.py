"""The memory monitor: samples judged, history rolled up, snapshots kept, orphans and releases followed."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.kernel import resources
from servers.host.kernel.resources import SharedSegment
from servers.judge.memory import history, holders
from servers.judge.memory.hardware.judge import HardwareJudge
from servers.judge.memory.history import SPANS, Point, Series
from servers.judge.memory.pools import GuardThresholds, MemoryGuard
from servers.judge.memory.verdicts import Judge
from servers.judge.reports.memory import reduce_snapshot
from servers.launch import numbers
from servers.lifecycle import memory
from servers.lifecycle.runs import health
from servers.models import Box, HistoryChunk, HostResources, Run
from servers.models.memory import Chunk
from servers.models.runs.run import ACTIVE, PARTS, DesiredState, RunState, is_managed
from servers.state import samples

log = logging.getLogger(__name__)


MINUTE = SPANS[1]
# Seconds: after a failure, until it is tried again; and between two looks for what is too old.
RETRY = 15.0
TIDY_EVERY = 600.0
# So often pages are shown the minute that is not stored yet.
RECENT_EVERY = 5.0
# Minutes that wait for a database which is away; older ones are given up.
MOST_WAITING = 120
# Nothing is removed before the clock has gone steadily for so long: one that is a year ahead for
# a minute after the boot must not cost a month of points.
STEADY = 3600.0
_JUMP = 60.0  # by so much against the monotonic clock it has jumped


class Rollups:
    """History points of one box and one table, fresh in memory, each minute in the database.

    take_up() and write() may be called from different threads.

    `finest`: seconds that the points stand for which are taken up. `show` is handed, packed, what
    is not stored yet.
    """

    def __init__(
        self, box: Box, table: type[Chunk], *, finest: int, show: Callable[[bytes], None]
    ) -> None:
        self.box = box
        self._table = table
        self._finest = finest
        self._show = show
        self._waiting: dict[int, Series] = {}  # by minute
        self._lock = threading.Lock()
        self._failed_at = self._tidied_at = self._shown_at = float("-inf")
        self._clock = time.time() - time.monotonic()
        self._steady_since = time.monotonic()

    def take_up(self, t: int, points: Mapping[str, Point]) -> None:
        """Points of one moment, by what they are of; whole minutes go to the database."""
        now, minute = time.monotonic(), history.slot(t, MINUTE)
        with self._lock:
            for key, point in points.items():
                if point:
                    self._waiting.setdefault(minute, {}).setdefault(key, {})[t] = point
            for old in sorted(self._waiting)[:-MOST_WAITING]:
                log.warning("Given up: the minute of %d, which was never stored", old)
                del self._waiting[old]
            # Also when the clock was set back: then the minute that was begun is over, too.
            is_over = any(each != minute for each in self._waiting)
        if is_over and now - self._failed_at >= RETRY:
            self.write(but=minute)
        if now - self._tidied_at >= TIDY_EVERY:
            self._tidied_at = now
            self._tidy()
        if now - self._shown_at >= RECENT_EVERY:
            self._shown_at = now
            self._show(history.pack(self._recent(minute)))

    def _recent(self, minute: int) -> Series:
        """This minute and the one before, which may be on its way to the database."""
        with self._lock:
            before = self._waiting.get(minute - MINUTE, {})
            return history.merge(before, self._waiting.get(minute, {}))

    def write(self, *, but: int | None = None) -> None:
        """Bring to the database what waits, but for the minute that is still going on.

        What the database does not take waits on.
        """
        with self._lock:
            for minute in sorted(self._waiting):
                if minute == but:
                    continue
                self._failed_at = time.monotonic()
                self._store(minute, self._waiting[minute])
                self._failed_at = float("-inf")
                del self._waiting[minute]

    @transaction.atomic
    def _store(self, minute: int, new: Series) -> None:
        # A minute may have begun before the watcher was started anew: all of it counts.
        fine = _cut_series(self._merge(self._finest, minute, new), minute, MINUTE)
        if self._finest < 10:
            self._merge(10, minute, _roll_up(fine, 10))
        minutes = self._merge(60, minute, _roll_up(fine, 60))
        lately = _cut_series(minutes, history.slot(minute, 600), 600)
        self._merge(600, minute, _roll_up(lately, 600))

    def _merge(self, step: int, minute: int, new: Series) -> Series:
        """Put points into the chunk that this minute lies in, and return all that are in it."""
        start = history.slot(minute, SPANS[step])
        rows = self._table._default_manager
        chunk = rows.filter(box=self.box, step=step, start=start).first()
        made = chunk or self._table(box=self.box, step=step, start=start)
        series = history.merge(history.unpack(bytes(chunk.body)), new) if chunk else new
        made.body = history.pack(series)
        made.save()
        return series

    def _tidy(self) -> None:
        """Remove points that are older than the settings say, if the clock can be believed."""
        clock = time.time() - time.monotonic()
        if abs(clock - self._clock) > _JUMP:
            log.warning("The clock has jumped by %.0f s", clock - self._clock)
            self._steady_since = time.monotonic()
        self._clock = clock
        if time.monotonic() - self._steady_since < STEADY:
            return
        for step, seconds in self._table.get_retention().items():
            old = int(time.time() - seconds) - max(2 * SPANS[step], 900)
            self._table._default_manager.filter(box=self.box, step=step, start__lt=old).delete()


def _cut_series(series: Series, since: int, span: int) -> Series:
    return {
        key: {t: point for t, point in times.items() if since <= t < since + span}
        for key, times in series.items()
    }


def _roll_up(series: Series, step: int) -> Series:
    return {key: history.rolled_up(times, step) for key, times in series.items()}


# A worker that outlives its container is there for days, until somebody sees it.
REMEMBERED = timedelta(days=7)


def complete_snapshot(sample: dict[str, Any], box: Box) -> dict[str, Any]:
    """The sample with this install's containers, the box's shared memory and its disks."""
    more = {"containers": snapshot_containers(box), "shm": shared_memory(), "events": []}
    return sample | more | {"pending": find_pending_start(box), "disks": snapshot_disks(box)}


def find_pending_start(box: Box) -> dict[str, Any] | None:
    """The start that has waited longest for free memory, and what it wants of each GPU."""
    queued = Run.objects.filter(server__box__slug=box.slug, state=RunState.QUEUED)
    launches = (run.version.launch for run in queued.select_related("version").order_by("pk"))
    wants = (each for each in launches if each.free_memory)
    return next(({"engine": each.engine, "needs": each.free_memory} for each in wants), None)


def snapshot_disks(box: Box, *, not_before: datetime | None = None) -> dict[str, Any] | None:
    """As the watcher has written them down last (models.host_resources); None: not, or long ago."""
    kept = HostResources.objects.filter(box__slug=box.slug)
    if not_before is not None:
        kept = kept.filter(looked_at__gte=not_before)
    known = kept.first()
    return known.found.get("disks") if known else None


def shared_memory() -> list[dict[str, Any]]:
    found = resources.segments(settings.HOST_ROOT)
    return [{"path": each.path, "bytes": each.bytes, "mapped": each.mapped} for each in found]


def snapshot_containers(box: Box) -> list[dict[str, Any]]:
    """Those of the runs that are active or have ended lately, also where Docker has none left."""
    runs = Run.objects.filter(server__box__slug=box.slug).exclude(container_id="")
    active = runs.filter(state__in=ACTIVE)
    ended = runs.filter(ended_at__gt=timezone.now() - REMEMBERED).exclude(state__in=ACTIVE)
    # A watched container that was started again is that of two runs.
    ended = ended.exclude(container_id__in=active.filter_external().values("container_id"))
    return [
        {
            "id": run.container_id,
            "run": run.pk,
            "ours": True,
            "state": "exited" if run.ended_at else "running",
            "stopped_at": numbers.to_timestamp(run.ended_at),
        }
        for run in (*active, *ended)
    ]


# Seconds: who looks at every process's maps, or at the database, need not do so each second.
SHM_EVERY = 60.0
CONTAINERS_EVERY = 5.0
# A recording for reports needs no more, but for the moments at which a verdict changes.
RECORD_EVERY = 30.0


class MemoryMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._best = dict(box.memory_best)
        self._judge = Judge(settings.MEMORY_THRESHOLDS, best=self._best)
        self._kept: dict[str, tuple[float, Any]] = {}
        self.snapshot: dict[str, Any] = {}  # the last that was judged
        self._events: deque[Mapping[str, Any]] = deque()
        self._recorder = SnapshotRecorder(box)

    def tell(self, event: Mapping[str, Any]) -> None:
        """Something that was done to the memory, for the judge; from any thread."""
        self._events.append(event)

    def judge(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The sample with a verdict for each of its GPUs."""
        is_unified = any(card.get("kind") == "unified" for card in sample.get("gpus") or [])
        snapshot = sample | {
            "containers": self._now_and_then(
                "containers", CONTAINERS_EVERY, lambda: snapshot_containers(self.box)
            ),
            # Elsewhere shared memory is not the GPU's.
            "shm": self._now_and_then("shm", SHM_EVERY, shared_memory) if is_unified else [],
            "pending": self._now_and_then(
                "pending", CONTAINERS_EVERY, lambda: find_pending_start(self.box)
            ),
            "events": [self._events.popleft() for _ in range(len(self._events))],
        }
        self.snapshot = snapshot
        before = dict(self._best)
        verdicts = [each.to_json() for each in self._judge.step(snapshot)]
        if self._best != before:
            Box.objects.filter(pk=self.box.pk).update(memory_best=self._best)
        self._recorder.see(snapshot, verdicts)
        return sample | {"verdicts": verdicts}

    def _now_and_then[Found](self, name: str, seconds: float, look: Callable[[], Found]) -> Found:
        looked_at, found = self._kept.get(name, (float("-inf"), None))
        if time.monotonic() - looked_at >= seconds:
            found = look()
            self._kept[name] = (time.monotonic(), found)
        return cast(Found, found)


class SnapshotRecorder:
    """Keeps what a report of a verdict is made of: some snapshots, and each at which one changed."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._recorded_at = float("-inf")
        self._before: tuple[tuple[str, str], ...] = ()

    def see(self, snapshot: Mapping[str, Any], verdicts: Sequence[Mapping[str, Any]]) -> None:
        now = tuple((each["gpu"], each["verdict"]) for each in verdicts)
        is_due = time.monotonic() - self._recorded_at >= RECORD_EVERY
        # What was done to the memory is told once, and a replay must hear of it.
        if is_due or snapshot.get("events") or now != self._before:
            self._recorded_at, self._before = time.monotonic(), now
            samples.record(self.box.slug, reduce_snapshot(snapshot, verdicts))


NAMES_EVERY = 5.0


class HistoryRecorder(Rollups):
    """For one box. see() and write() may be called from different threads."""

    def __init__(self, box: Box) -> None:
        super().__init__(
            box, HistoryChunk, finest=1, show=lambda body: samples.keep_recent(box.slug, body)
        )
        self._names, self._named_at = self._servers(), time.monotonic()

    def see(self, sample: dict[str, Any]) -> None:
        """Take up a judged sample."""
        if sample.get("stale_s") is not None:
            return  # what is only repeated was not seen
        points = {gpu.key: history.point(gpu) for gpu in holders.gpus(sample, self._names)}
        if time.monotonic() - self._named_at >= NAMES_EVERY:
            self._named_at = time.monotonic()
            self._names = self._servers()
        self.take_up(int(sample["t"]), points)

    def _servers(self) -> dict[str, str]:
        """Slugs by container."""
        active = Run.objects.active().filter(server__box=self.box).exclude(container_id="")
        return dict(active.values_list("container_id", "server__slug"))


# Seconds: the disks are written down about as often.
DISKS_EVERY = 10.0
# Older figures tell nothing of now.
DISKS_KEEP = timedelta(minutes=2)


class HardwareMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._judge = HardwareJudge()
        self._disks: dict[str, Any] | None = None
        self._looked_at = float("-inf")

    def judge(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The sample with its findings, and the disks that they are about."""
        if time.monotonic() - self._looked_at >= DISKS_EVERY:
            self._looked_at = time.monotonic()
            self._disks = snapshot_disks(self.box, not_before=timezone.now() - DISKS_KEEP)
        whole = sample | {"disks": self._disks}
        return whole | {"findings": [each.to_json() for each in self._judge.step(whole)]}


# Seconds between two looks at it, each of which is one at every process.


class OrphanMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._kept = list(box.left_behind)
        self._segments: list[SharedSegment] = []
        self._looked_at = float("-inf")

    def look(self, sample: Mapping[str, Any] | None, *, at_all: bool) -> None:
        """`at_all`: at shared memory too, because something was done."""
        if at_all or time.monotonic() - self._looked_at > SHM_EVERY:
            self._looked_at = time.monotonic()
            self._segments = resources.segments(settings.HOST_ROOT)
        try:
            looked = memory.look_for_orphans(self.box, sample, self._segments)
            found = [each.to_json() for each in looked]
        except ContainerError as error:
            log.warning("What engines left behind is not known: %s", error)
            return
        if found == self._kept:
            return
        for each in found:
            if each["key"] not in {known["key"] for known in self._kept}:
                log.info("Left behind: %s. %s", each["what"], each["why"])
        self._kept = found
        Box.objects.filter(pk=self.box.pk).update(left_behind=found)
        events.publish_change("box", self.box.pk)


# Seconds before an end in which an engine may have begun to let go of its memory.
_BEFORE = 120.0
# Seconds between two looks at shared memory, which is a look at every process.
_LOOK_EVERY = 5.0


@dataclass
class _Seen:
    """What was seen of an engine while it ran."""

    held: deque[tuple[float, int]] = field(default_factory=deque)
    pids: set[int] = field(default_factory=set)


class ReleaseMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._seen: dict[int, _Seen] = {}
        self._shm: list[dict[str, Any]] = []
        self._looked_at = float("-inf")

    def see(self, snapshot: Mapping[str, Any]) -> None:
        """`snapshot` is a sample with the box's shared memory, where that is the GPU's too."""
        runs = memory.list_watched_runs(self.box)
        if snapshot.get("shm") and any(_is_on_its_way(run) for run in runs):
            snapshot = {**snapshot, "shm": self._shared_memory()}
        self._seen = {run.pk: self._seen.get(run.pk, _Seen()) for run in runs}
        for run in runs:
            before = self._seen[run.pk]
            found = memory.look_at_release(run, snapshot, before.pids)
            if run.ended_at is not None:
                held = max((size for _t, size in before.held), default=None)
                memory.note(run, found, held=held)
            elif found is not None:
                self._remember(run, before, found.t, found.size)
                before.pids |= _pids(snapshot, run.container_id)

    def _shared_memory(self) -> list[dict[str, Any]]:
        """What an engine has mapped until a moment ago is nobody's now."""
        if time.monotonic() - self._looked_at > _LOOK_EVERY:
            self._looked_at, self._shm = time.monotonic(), shared_memory()
        return self._shm

    def _remember(self, run: Run, before: _Seen, t: float, size: int) -> None:
        before.held.append((t, size))
        # One that is being stopped held the most before that, however long it takes.
        while run.stopping_at is None and before.held[0][0] < t - _BEFORE:
            before.held.popleft()


def _pids(snapshot: Mapping[str, Any], container: str) -> set[int]:
    processes = snapshot.get("processes") or []
    return {each["pid"] for each in processes if each.get("container") == container}


def _is_on_its_way(run: Run) -> bool:
    return run.ended_at is not None and memory.read_release(run).outcome in ("", "releasing")


class LoadMonitor:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._thresholds = GuardThresholds(alarm=settings.LOADING_ALARM, stop=settings.LOADING_STOP)
        self._guards: dict[int, MemoryGuard] = {}

    @property
    def is_off(self) -> bool:
        return not (self._thresholds.alarm or self._thresholds.stop)

    def step(self, sample: Mapping[str, Any]) -> None:
        """Nothing where GPUs have memory of their own: there an engine fails by itself."""
        available = (sample.get("meminfo") or {}).get("MemAvailable")
        is_unified = any(card.get("kind") == "unified" for card in sample.get("gpus") or [])
        if self.is_off or not is_unified or available is None:
            return
        # Of what is stale nothing follows, but /proc goes on when the driver hangs.
        swap = sample.get("swap") or {}
        swapped = (swap.get("in") or 0) + (swap.get("out") or 0)
        runs = self._list_loading()
        self._guards = {pk: guard for pk, guard in self._guards.items() if pk in runs}
        for pk, run in runs.items():
            if pk not in self._guards:
                left = health.foresee_free(run)
                self._guards[pk] = MemoryGuard(self._thresholds, foreseen=left)
            told = self._guards[pk].step(sample["t"], available=available, swapped=swapped)
            if told.level == "stop" and is_managed(run):
                if health.stop_load(run, told.says):
                    log.warning("run %s is stopped: %s", pk, told.says)
            elif told.says or run.start.memory_warning:
                health.note_strain(run, told.says)

    def _list_loading(self) -> dict[int, Run]:
        found = Run.objects.filter(
            server__box=self.box, state=RunState.STARTING, wanted=DesiredState.RUNNING
        ).select_related("server__box__hf_token", "server__profile", "version", *PARTS)
        return {run.pk: run for run in found}
