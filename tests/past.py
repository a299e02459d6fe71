"""A box's history as the watcher would have kept it, made at once."""

import random
from collections.abc import Iterator

from servers.judge.memory import history
from servers.judge.memory.history import SPANS, Point, Series, Times
from servers.models import Box, HistoryChunk

GIB = 2**20  # KiB
KEPT = {1: 3600, 10: 86400, 60: 30 * 86400, 600: 30 * 86400}


def fill(
    box: Box, until: int, *, gpus: int, kept: dict[int, int] | None = None, seed: int = 1
) -> None:
    """Every level up to this second, for cards that serve by day, swap models and idle by night."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    for step, seconds in (kept or KEPT).items():
        HistoryChunk.objects.bulk_create(_chunks(box, step, until - seconds, until, gpus, chance))


def _chunks(
    box: Box, step: int, since: int, until: int, gpus: int, chance: random.Random
) -> Iterator[HistoryChunk]:
    span = SPANS[step]
    for start in range(history.slot(since, span), until, span):
        series: Series = {}
        for gpu in range(gpus):
            slots = range(max(start, since), min(start + span, until), step)
            times: Times = {t: _point(t, step, gpu, chance) for t in slots}
            series[key(gpu)] = times
        yield HistoryChunk(box=box, step=step, start=start, body=history.pack(series))


def key(gpu: int) -> str:
    return f"GPU-{gpu:08d}-1111-2222-3333-444444444444"


def _point(t: int, step: int, gpu: int, chance: random.Random) -> Point:
    """Figures that move as those of a card at work do: noise in nearly every column."""
    hour = t % 86400 // 3600
    works = 6 <= hour < 23
    util = chance.randint(35, 99) if works else 0
    total, reserved, usual = int(95.6 * GIB), int(0.6 * GIB), int(0.4 * GIB) + chance.randint(0, 64)
    held = {
        f"=server:{('minimax-m27', 'gpt-oss-120b')[gpu // 2 % 2]}": int(71.3 * GIB)
        + chance.randint(0, 300) * 1024
        if works
        else 0,
        "=process:python3": int(2.2 * GIB) + chance.randint(0, 900) * 64 if hour % 3 else 0,
        "=process:Xorg": int(0.21 * GIB) + chance.randint(0, 40) * 4,
        # Lost at two, back at five: what one wants to see the next morning.
        "=unattributed": int(33.1 * GIB) if 2 <= hour < 5 and gpu == 0 else 0,
    }
    parts = {name: size for name, size in held.items() if size} | {
        "=reserved": reserved,
        "=usual": usual,
    }
    used = sum(parts.values()) - reserved
    found: Point = parts | {
        "=free": total - reserved - used,
        "util": util,
        "power": 800 + util * 52 + chance.randint(0, 200),
        "temperature": 31 + util // 3,
        "used": used,
    }
    if step > 1:
        found |= {
            "util_max": min(100, util + chance.randint(0, 20)),
            "power_max": found["power"] + chance.randint(0, 900),
            "temperature_max": found["temperature"] + 2,
            "used_max": used + chance.randint(0, 1024),
        }
    return found
