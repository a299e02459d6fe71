"""Metrics from the logs of engines whose metrics endpoint is off."""

import time

from servers.judge.logs import parsing
from servers.judge.logs.metric_rules import by_engine
from servers.judge.logs.metrics import GAP, Meter, MetricRule
from servers.judge.runs.metrics import Figures
from servers.models import LogChunk, Run
from servers.models.logs.log import NOTE

EVERY = 10.0  # seconds between two looks
# At once: the tick in which it is done asks engines, too.
MOST_LINES, MOST_CHUNKS = 5_000, 16


class LogFigures:
    """Of one run, from now on."""

    def __init__(self, run: Run) -> None:
        book = by_engine().get(run.version.launch.engine)
        self._rules = [MetricRule.from_json(each) for each in book.rules] if book else []
        self._read = max(0, run.log_lines - MOST_LINES)
        self._looked_at = float("-inf")
        self._before: Meter | None = None
        self._found, self._at = Figures(), float("-inf")

    def look(self, run: Run) -> Figures:
        """What its last lines said: zeros where it has been silent since, for it writes while it
        works; all None where it never said anything."""
        now = time.monotonic()
        if self._rules and now - self._looked_at >= EVERY and run.log_lines > self._read:
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
