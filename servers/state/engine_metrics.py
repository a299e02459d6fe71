"""The newest metrics of engines: kept in Redis, renewed while they serve."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from servers.judge.runs.metrics import STALE, Figures
from servers.models import Run
from servers.models.runs.run import RunState
from servers.state import store

LINE = 90  # points of the small line, each of figurepoints.FINEST seconds: a quarter of an hour
METRICS, LOG = "metrics", "log"
_TTL = 600


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
    body = json.dumps(said, separators=(",", ":"))
    store.run_despite(lambda: store.client.set(_key(run_id), body, ex=_TTL))


def figures_of(run: Run | None) -> EngineMetrics | None:
    """What a ready run's engine told last; None: it tells nothing, or nobody has looked for long."""
    return figures_by_run([run]).get(run.pk) if run is not None else None


def figures_by_run(runs: Iterable[Run | None]) -> dict[int, EngineMetrics]:
    """By run, of those that are ready and tell something."""
    ready = [run.pk for run in runs if run is not None and run.state == RunState.READY]
    bodies = _read(ready) if ready else []
    return {pk: _parse_metrics(body) for pk, body in zip(ready, bodies, strict=False) if body}


def figures_kept(run_id: int) -> EngineMetrics | None:
    """The same for who knows that the run is ready."""
    body = next(iter(_read([run_id])), None)
    return _parse_metrics(body) if body else None


def _read(run_ids: Sequence[int]) -> list[bytes | None]:
    """Of each of these runs; [] when Redis is away."""
    keys = [_key(pk) for pk in run_ids]
    return store.read_despite(lambda: cast(list[bytes | None], store.client.mget(keys)), [])


def _key(run_id: int) -> str:
    return f"inferdash:told:{run_id}"


def _parse_metrics(body: bytes) -> EngineMetrics:
    said = json.loads(body)
    return EngineMetrics(
        at=float(said["at"]),
        source=str(said["source"]),
        figures=Figures.from_json(said["figures"]),
        line=tuple(said["line"]),
    )
