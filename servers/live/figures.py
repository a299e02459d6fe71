"""The newest metrics of engines: kept in Redis, renewed while they serve."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass

from servers.judge.runs.metrics import STALE, Figures
from servers.live import messages
from servers.models import Run
from servers.models.runs.run import RunState

LINE = 90  # points of the small line, each of figurepoints.FINEST seconds: a quarter of an hour
METRICS, LOG = "metrics", "log"


@dataclass(frozen=True, kw_only=True)
class EngineMetrics:
    """`at`: unix seconds. `source`: METRICS, or LOG where its metrics are off. `line`: tokens a
    second of the last quarter of an hour, the oldest first; None: nobody looked."""

    at: float
    source: str
    figures: Figures
    line: tuple[float | None, ...] = ()

    @property
    def is_stale(self) -> bool:
        return time.time() - self.at > STALE

    @property
    def is_from_log(self) -> bool:
        return self.source == LOG


def keep_figures(run_id: int, told: EngineMetrics) -> None:
    said = {
        "at": round(told.at, 1),
        "source": told.source,
        "figures": told.figures.to_json(),
        "line": told.line,
    }
    messages.keep_told(run_id, json.dumps(said, separators=(",", ":")))


def figures_of(run: Run | None) -> EngineMetrics | None:
    """What a ready run's engine told last; None: it tells nothing, or nobody has looked for long."""
    return figures_by_run([run]).get(run.pk) if run is not None else None


def figures_by_run(runs: Iterable[Run | None]) -> dict[int, EngineMetrics]:
    """By run, of those that are ready and tell something."""
    ready = [run.pk for run in runs if run is not None and run.state == RunState.READY]
    bodies = messages.read_metrics(ready) if ready else []
    return {pk: _parse_metrics(body) for pk, body in zip(ready, bodies, strict=False) if body}


def figures_kept(run_id: int) -> EngineMetrics | None:
    """The same for who knows that the run is ready."""
    body = next(iter(messages.read_metrics([run_id])), None)
    return _parse_metrics(body) if body else None


def _parse_metrics(body: bytes) -> EngineMetrics:
    said = json.loads(body)
    return EngineMetrics(
        at=float(said["at"]),
        source=str(said["source"]),
        figures=Figures.from_json(said["figures"]),
        line=tuple(said["line"]),
    )
