"""An afternoon of engines' figures for pages to show, as the watcher would have kept them."""

import math
import time

from servers.judge.memory import history
from servers.judge.runs import metrics
from servers.judge.runs.metrics import FINEST, Figures
from servers.models import Run
from servers.models.memory import FiguresChunk
from servers.state import samples
from servers.state.samples import LINE, EngineMetrics
from servers.watcher.memory.monitor import Rollups


def figures(second: float, busy: float = 1.0) -> Figures:
    """Of a moment; `busy`: 0 is idle."""
    if not busy:
        return Figures(running=0, queued=0, prompt=0, generation=0, kv=0, preemptions=0)
    wave = 1 + 0.5 * math.sin(second / 97 + busy) + 0.2 * math.sin(second / 13)
    return Figures(
        running=round(4 * busy * wave),
        queued=max(0, round(6 * busy * (wave - 1.2))),
        prompt=810 * busy * wave,
        generation=142.6 * busy * wave,
        first_p50=0.21 * wave,
        first_p95=0.64 * wave,
        token_p50=0.0179,
        token_p95=0.026,
        whole_p50=8.2 * wave,
        whole_p95=24.0 * wave,
        kv=min(0.34 * busy * wave, 1),
        prefix=0.62,
        accepted=0.71,
        preemptions=0,
    )


def tell(run: Run, *, busy: float = 1.0, ago: float = 0.0, source: str = "metrics") -> None:
    """What its engine told so many seconds ago, after a quarter of an hour of the same."""
    at = time.time() - ago
    line = [figures(at - (LINE - n) * FINEST, busy).generation for n in range(LINE)]
    told = EngineMetrics(at=at, source=source, figures=figures(at, busy), line=tuple(line))
    samples.keep_figures(run.pk, told)


def past(run: Run, *, hours: float = 1.0, busy: float = 1.0) -> None:
    """Fill its history up to now."""
    box = run.server.box
    keeper = Rollups(
        box,
        FiguresChunk,
        finest=FINEST,
        show=lambda body: samples.keep_recent(box.slug, body, of="figures"),
    )
    until = history.slot(time.time(), FINEST)
    for t in range(until - int(hours * 3600), until, FINEST):
        keeper.take_up(t, {run.server.slug: metrics.make_point(figures(t, busy))})
    keeper.write()
