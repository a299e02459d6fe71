"""Samples of boxes, engine metrics and the state of the data disk, as their watchers last wrote them."""

import json
import logging
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from django.conf import settings
from django.db.utils import OperationalError

from servers.host.kernel import resources
from servers.judge.memory import holders
from servers.judge.memory.hardware.machine import describe_full_data_disk, is_data_disk_full
from servers.judge.runs.metrics import STALE, Figures
from servers.models import Run
from servers.models.runs.run import RunState
from servers.state import store

# One point a second for the 15-minute charts.
HISTORY = 900
_SAMPLE_TTL = 60
_LOOK_TTL = 30
# Snapshots that a report of a memory verdict is made of: some half an hour.
RECORDED = 90
_RECORDING_TTL = 3600


def keep(
    box_slug: str, sample: dict[str, Any], points: Sequence[dict[str, Any]] | None = None
) -> None:
    """The newest sample, and more points of the chart; None: its own."""
    if points is None:
        # A sample that is only repeated because the collector hangs is no point of a chart.
        points = [holders.point(sample)] if sample.get("stale_s") is None else []
    store.run_despite(lambda: _keep(box_slug, sample, points))


def _keep(box_slug: str, sample: dict[str, Any], points: Sequence[dict[str, Any]]) -> None:
    with store.client.pipeline(transaction=False) as pipe:
        pipe.set(f"inferdash:sample:{box_slug}", json.dumps(sample), ex=_SAMPLE_TTL)
        if points:
            pipe.rpush(f"inferdash:history:{box_slug}", *map(json.dumps, points))
            pipe.ltrim(f"inferdash:history:{box_slug}", -HISTORY, -1)
        pipe.execute()


def newest(box_slug: str) -> dict[str, Any] | None:
    """The collector's newest sample; None when there was none in the last minute, or when
    Redis is away: pages then say that nothing is known of the GPUs, and stay."""
    text = _read_text(f"inferdash:sample:{box_slug}")
    return json.loads(text) if text else None


def chart_points(box_slug: str) -> list[dict[str, Any]]:
    """Of the last 15 minutes, one a second; [] when Redis is away."""
    return _read_list(f"inferdash:history:{box_slug}")


def record(box_slug: str, snapshot: dict[str, Any]) -> None:
    """One more snapshot, reduced to what the judge of memory looks at, for a report of a verdict."""
    store.run_despite(lambda: _record(box_slug, snapshot))


def _record(box_slug: str, snapshot: dict[str, Any]) -> None:
    key = f"inferdash:recording:{box_slug}"
    with store.client.pipeline(transaction=False) as pipe:
        pipe.rpush(key, json.dumps(snapshot))
        pipe.ltrim(key, -RECORDED, -1)
        pipe.expire(key, _RECORDING_TTL)
        pipe.execute()


def read_recording(box_slug: str) -> list[dict[str, Any]]:
    """The snapshots of the last half an hour, in their order; [] when Redis is away."""
    return _read_list(f"inferdash:recording:{box_slug}")


def keep_recent(box_slug: str, body: bytes, *, of: str = "recent") -> None:
    """What the box's history does not hold yet (judge.memory.history.pack): of GPUs, or "figures"."""
    key = f"inferdash:{of}:{box_slug}"
    store.run_despite(lambda: store.client.set(key, body, ex=_SAMPLE_TTL))


def read_recent(box_slug: str, *, of: str = "recent") -> bytes | None:
    """As keep_recent() kept it; None without one, also when Redis is away."""
    return _read_text(f"inferdash:{of}:{box_slug}")


def note_look(box_slug: str) -> None:
    """A person looks at the external engines of the box."""
    key = f"inferdash:looked-at:{box_slug}"
    store.run_despite(lambda: store.client.set(key, "1", ex=_LOOK_TTL))


def is_looked_at(box_slug: str) -> bool:
    """False, too, when Redis is away."""
    key = f"inferdash:looked-at:{box_slug}"
    return store.read_despite(lambda: bool(store.client.exists(key)), False)


def _read_text(key: str) -> bytes | None:
    return store.read_despite(lambda: cast(bytes | None, store.client.get(key)), None)


def _read_list(key: str) -> list[dict[str, Any]]:
    nothing: list[bytes] = []
    lines = store.read_despite(lambda: cast(list[bytes], store.client.lrange(key, 0, -1)), nothing)
    return [json.loads(line) for line in lines]


log = logging.getLogger(__name__)

_DISK_FULL = "53100"  # PostgreSQL's class of errors, "disk_full"
# What SQLite says instead where it cannot make or lengthen a file of its own.
_MAY_MEAN_FULL = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
_PRIMARY = 0xFF  # of SQLite's extended codes, the part that all of a kind share


class DiskFullError(OperationalError):
    """What was asked for is not begun, because the data folder's disk is full; the text says so.

    As the database's own: who survives a database that is away survives this.
    """


def disk() -> resources.HostDisk | None:
    """None when nobody may look."""
    return resources.disk(str(settings.DATA))


def check_room() -> None:
    """Raises DiskFullError where the disk has no room for what a start writes."""
    found = disk()
    if found is not None and is_data_disk_full(found.free, found.total):
        raise DiskFullError(describe_full_data_disk())


def describe_full_disk(error: BaseException | None) -> str:
    """The sentence for an error that comes of a full disk; "" for any other."""
    while error is not None:
        if isinstance(error, DiskFullError):
            return str(error)
        if getattr(error, "sqlstate", None) == _DISK_FULL:
            return describe_full_data_disk(of_database=True)
        if isinstance(error, sqlite3.Error) and _is_full(error):
            return describe_full_data_disk()
        error = error.__cause__ or error.__context__
    return ""


@contextmanager
def unless_full() -> Iterator[None]:
    """For what people can do without: a full disk keeps it from being written, and them from
    nothing."""
    try:
        yield
    except OperationalError as error:
        if not describe_full_disk(error):
            raise
        log.warning("Left out: %s", describe_full_disk(error))


def _is_full(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if code not in _MAY_MEAN_FULL:
        return code == sqlite3.SQLITE_FULL
    found = disk()
    return found is not None and is_data_disk_full(found.free, found.total)


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
