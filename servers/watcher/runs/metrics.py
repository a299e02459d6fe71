"""Metrics of engines: for pages at once, for the history every ten seconds."""

import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from servers import events
from servers.host.runs.probes import HealthAnswer
from servers.judge.logs import parsing
from servers.judge.logs.metric_rules import load_meters
from servers.judge.logs.metrics import GAP, Meter, MetricRule
from servers.judge.memory import history
from servers.judge.runs import metrics
from servers.judge.runs.metrics import FINEST, STALE, WINDOW, EngineReading, Figures, MetricMap
from servers.models import Box, FiguresChunk, LogChunk, Run
from servers.models.logs import NOTE
from servers.state import samples
from servers.state.samples import LINE, LOG, METRICS, EngineMetrics
from servers.watcher.memory.monitor import Rollups
from servers.watcher.runs.probes import StatusProbe

EVERY = 10.0  # seconds between two looks
# At once: the tick in which it is done asks engines, too.
MOST_LINES, MOST_CHUNKS = 5_000, 16


class LogFigures:
    """Of one run, from now on."""

    def __init__(self, run: Run) -> None:
        book = load_meters().get(run.version.launch.engine)
        self._rules = [MetricRule.from_json(each) for each in book.rules] if book else []
        self._read = max(0, run.log.lines - MOST_LINES)
        self._looked_at = float("-inf")
        self._before: Meter | None = None
        self._found, self._at = Figures(), float("-inf")

    def look(self, run: Run) -> Figures:
        """What its last lines said: zeros where it has been silent since, for it writes while it
        works; all None where it never said anything."""
        now = time.monotonic()
        if self._rules and now - self._looked_at >= EVERY and run.log.lines > self._read:
            self._looked_at = now
            self._go_on(run)
        if self._found.is_silent or time.time() - self._at <= GAP:
            return self._found
        zeros = dict.fromkeys(self._found.to_json(), 0.0)
        return Figures.from_json(zeros)

    def _go_on(self, run: Run) -> None:
        lines = LogChunk.objects.lines(run.pk, self._read, MOST_LINES, most=MOST_CHUNKS)
        if not lines:
            return
        block = "\n".join(
            f"{line.at} {line.stream} {parsing.plain(line.text)}" if line.stream != NOTE else ""
            for line in lines
        )
        meter = Meter(self._rules)
        meter.add(lines[0].number, block)
        self._read = lines[-1].number
        newest = meter.to_json()
        if not newest:
            return
        # Parts of an engine write by turns: those of the block before count still.
        if self._before is not None:
            meter.merge(self._before.to_json())
        self._before = Meter(self._rules)
        self._before.merge(newest)
        series = meter.series()
        last = {name: values[-1] for name, values in series.items() if values[-1] is not None}
        self._at = last.pop("t")
        kv = last.pop("kv", None)
        said = last if kv is None else {**last, "kv": kv / 100}
        self._found = Figures.from_json(said)


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
            show=lambda body: samples.keep_recent(box.slug, body, of="figures"),
        )

    def take_reading(
        self, run: Run, said: StatusProbe, *, others: int | None, is_ours: bool
    ) -> bool:
        """Take up what an engine has said; whether pages would show something else now.

        `others` of its requests are not inferdash's own questions; `is_ours`: its figures may
        tell of such a question.
        """
        book = metrics.by_engine().get(run.version.launch.engine)
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
        samples.keep_figures(run.pk, kept.told)
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
            before = samples.figures_kept(run.pk)  # by an earlier watcher
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
                point = metrics.make_point(told)
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
