"""Metrics of engines: for pages at once, for the history every ten seconds."""

import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from servers import events
from servers.host.runs.probes import HealthAnswer
from servers.judge.memory import history
from servers.judge.runs import metric_map, metric_points, metrics
from servers.judge.runs.metric_map import MetricMap
from servers.judge.runs.metric_points import FINEST
from servers.judge.runs.metrics import STALE, WINDOW, EngineReading, Figures
from servers.models import Box, FiguresChunk, Run
from servers.state import box_samples, engine_metrics
from servers.state.engine_metrics import LINE, LOG, METRICS, EngineMetrics
from servers.watcher.memory.rollups import Rollups
from servers.watcher.runs.log_metrics import LogFigures
from servers.watcher.runs.probes import StatusProbe


@dataclass(kw_only=True)
class _Kept:
    """Of one run."""

    server: int
    line: deque[float | None]
    readings: deque[EngineReading] = field(default_factory=deque)  # of the last WINDOW
    told: EngineMetrics | None = None
    shown: object = None  # what pages were told of last
    # The span of the history that is going on: when it began, what stood then, what was told since.
    slot: int | None = None
    first: EngineReading | None = None
    moments: list[Figures] = field(default_factory=list)
    log: LogFigures | None = None

    @property
    def has_metrics(self) -> bool:
        """Whether they were told just now: one look without them is no reason to read the log."""
        return bool(self.readings) and time.monotonic() - self.readings[-1].at <= STALE


class EngineFigures:
    """For one box. Not for several threads, but for write()."""

    def __init__(self, box: Box) -> None:
        self._kept: dict[int, _Kept] = {}
        self._keeper = Rollups(
            box,
            FiguresChunk,
            finest=FINEST,
            show=lambda body: box_samples.keep_recent(box.slug, body, of="figures"),
        )

    def take_reading(
        self, run: Run, said: StatusProbe, *, others: int | None, is_ours: bool
    ) -> bool:
        """Take up what an engine has said; whether pages would show something else now.

        `others` of its requests are not inferdash's own questions; `is_ours`: its figures may
        tell of such a question.
        """
        book = metric_map.by_engine().get(run.version.launch.engine)
        if book is None or not run.version.launch.serves_models:
            return False
        kept = self._find_state(run)
        if said.exposed.totals:
            reading = EngineReading(at=said.at, exposed=said.exposed)
            figures, source = _read(kept, book, reading, others, is_ours=is_ours), METRICS
        elif said.health is HealthAnswer.OK and not kept.has_metrics:
            kept.log = kept.log or LogFigures(run)
            figures, source = kept.log.look(run), LOG
            if others is not None:
                figures = replace(figures, running=float(others))
            if figures.is_silent:
                return False
        else:
            return False  # what it told last grows old, and is shown to be so
        self._note(run, kept, book, figures)
        kept.told = EngineMetrics(
            at=time.time(), source=source, figures=figures, line=tuple(kept.line)
        )
        engine_metrics.keep_figures(run.pk, kept.told)
        before, kept.shown = kept.shown, (source, figures.round())
        return kept.shown != before

    def look(self, ready: Collection[int]) -> None:
        """Forget runs that are over, and tell pages of figures that have grown old."""
        for run_id in self._kept.keys() - set(ready):
            del self._kept[run_id]
        for kept in self._kept.values():
            if kept.told is not None and kept.shown is not None and kept.told.is_stale:
                kept.shown = None
                events.publish_change("server", kept.server)

    def write(self) -> None:
        self._keeper.write()

    def _find_state(self, run: Run) -> _Kept:
        if run.pk not in self._kept:
            before = engine_metrics.figures_kept(run.pk)  # by an earlier watcher
            line = before.line if before and not before.is_stale else ()
            self._kept[run.pk] = _Kept(server=run.server_id, line=deque(line, maxlen=LINE))
        return self._kept[run.pk]

    def _note(self, run: Run, kept: _Kept, book: MetricMap, figures: Figures) -> None:
        """Make a point of each span of the history that is over."""
        slot = history.slot(time.time(), FINEST)
        if kept.slot is not None and slot != kept.slot:
            if 0 < slot - kept.slot <= 3 * FINEST:
                whole = _whole(kept, book) or figures
                told = metrics.average_gauges(kept.moments, whole)
                kept.line.append(None if told.generation is None else round(told.generation, 1))
                point = metric_points.point(told)
                self._keeper.take_up(kept.slot, {run.server.slug: point})
            kept.slot = None
        if kept.slot is None:
            kept.slot, kept.moments = slot, []
            kept.first = kept.readings[-1] if kept.readings else None
        kept.moments.append(figures)


def _whole(kept: _Kept, book: MetricMap) -> Figures | None:
    """Of the span from its first reading to now; None: that is not known."""
    if kept.first is None or not kept.readings or kept.first is kept.readings[-1]:
        return None
    return metrics.compute_figures(book, kept.first, kept.readings[-1])


def _read(
    kept: _Kept, book: MetricMap, new: EngineReading, others: int | None, *, is_ours: bool
) -> Figures:
    last = kept.readings[-1] if kept.readings else None
    if last and metrics.has_begun_anew(book, last.exposed, new.exposed):
        kept.readings.clear()
        kept.first = None
    if is_ours and not others:
        # What it counts now is inferdash's own question, which is nobody's use of it.
        kept.readings.clear()
        kept.first = None
        kept.readings.append(new)
        quiet = metrics.compute_figures(book, new, replace(new, at=new.at + 1))
        return replace(quiet, running=_count(others), queued=_none_of(quiet.queued))
    kept.readings.append(new)
    while new.at - kept.readings[0].at > WINDOW:
        kept.readings.popleft()
    found = metrics.live(book, kept.readings)
    if is_ours and found.running:
        found = replace(found, running=max(0.0, found.running - 1))
    return found


def _count(requests: int | None) -> float | None:
    return None if requests is None else float(requests)


def _none_of(requests: float | None) -> float | None:
    return None if requests is None else 0.0
