"""Samples of boxes: the newest one, the points of its charts, and who looks at the box."""

import json
from typing import Any, cast

from servers.judge.memory import holders
from servers.state import store

# One point a second for the 15-minute charts.
HISTORY = 900
_SAMPLE_TTL = 60
_LOOK_TTL = 30
# Snapshots that a report of a memory verdict is made of: some half an hour.
RECORDED = 90
_RECORDING_TTL = 3600


def keep(box_slug: str, sample: dict[str, Any]) -> None:
    """The newest sample, and one more point of the chart."""
    store.run_despite(lambda: _keep(box_slug, sample))


def _keep(box_slug: str, sample: dict[str, Any]) -> None:
    with store.client.pipeline(transaction=False) as pipe:
        pipe.set(f"inferdash:sample:{box_slug}", json.dumps(sample), ex=_SAMPLE_TTL)
        # A sample that is only repeated because the collector hangs is no point of a chart.
        if sample.get("stale_s") is None:
            pipe.rpush(f"inferdash:history:{box_slug}", json.dumps(holders.point(sample)))
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
