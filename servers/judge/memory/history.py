"""The history of samples: points of each GPU, rolled up and packed.

A point says of one GPU and one span of time what was seen in it, by column, as whole numbers:

    util          percent                  power         tenths of a watt
    temperature   °C                       used          KiB, as the card reports it
    =KEY          KiB of a part of its ledger: =server:glm-5, =process:python3, =cache, =free ...

A column that is absent was not reported; a part that is absent beside others was not there. In
points of more than a second, figures are means, and NAME_max holds the greatest value. The parts
of a point add up to the pool, but for what rounding to KiB takes.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence

from servers.judge.memory.holders import GpuMemory
from servers.judge.memory.ledger import Ledger

type Point = dict[str, int]
type Times = dict[int, Point]  # by the unix second at which the span begins
type Series = dict[str, Times]  # by GPU

# Seconds that a point stands for, and how many seconds of them are packed together.
SPANS = {1: 60, 10: 600, 60: 3600, 600: 86400}

TOP = 8  # holders of a pool that keep their names in a point; more are others
OTHERS = "=others"
_HOLDERS = ("=server:", "=process:")
_LEVEL = 6  # zlib


def slot(t: float, step: int) -> int:
    """The unix second at which the span of `step` seconds begins that `t` lies in."""
    return int(t // step) * step


def point(gpu: GpuMemory) -> Point:
    """What is kept of one GPU of a sample."""
    figures = {
        "util": gpu.util,
        "power": None if gpu.power is None else round(gpu.power * 10),
        "temperature": gpu.temperature,
        "used": None if gpu.used is None else gpu.used // 1024,
    }
    known = {name: value for name, value in figures.items() if value is not None}
    return known | (_parts(gpu.ledger) if gpu.ledger else {})


def _parts(of: Ledger) -> Point:
    sizes: Point = {}
    for part in of.parts:
        name = f"={part.kind}"
        if part.kind == "server":
            name = f"=server:{part.name}"
        elif part.kind == "process":
            # By name: pids are legion, and say nothing a month later.
            is_gone = part.holders[0].state == "gone"
            name = f"=process:{'ended' if is_gone else part.name}"
        sizes[name] = sizes.get(name, 0) + part.size // 1024
    return _keep_largest({name: size for name, size in sizes.items() if size or name == "=free"})


def _keep_largest(sizes: Point) -> Point:
    """The largest holders by name, the rest of them as one."""
    held = [name for name in sizes if name.startswith(_HOLDERS)]
    small = set(sorted(held, key=lambda name: -sizes[name])[TOP:])
    if not small:
        return sizes
    kept = {name: size for name, size in sizes.items() if name not in small}
    kept[OTHERS] = kept.get(OTHERS, 0) + sum(sizes[name] for name in small)
    return kept


def roll_up(points: Sequence[Point]) -> Point:
    """Points of one GPU as one: means, the greatest of figures, and the largest holders."""
    figures: dict[str, list[int]] = {}
    greatest: Point = {}
    parts: Point = {}
    # A part that is not in a point with a ledger was not there, so it counts as 0.
    told = [each for each in points if "=free" in each]
    for each in told:
        for name, value in each.items():
            if name[0] == "=":
                parts[name] = parts.get(name, 0) + value
    for each in points:
        for name, value in each.items():
            if name[0] == "=":
                continue
            most = name
            if not name.endswith("_max"):
                figures.setdefault(name, []).append(value)
                most = f"{name}_max"
            if most == name or most not in each:
                greatest[most] = max(value, greatest.get(most, value))
    means = {name: round(sum(values) / len(values)) for name, values in figures.items()}
    return (
        means | greatest | _keep_largest({each: round(parts[each] / len(told)) for each in parts})
    )


def rolled_up(times: Times, step: int) -> Times:
    """The points of one GPU as points of `step` seconds."""
    groups: dict[int, list[Point]] = {}
    for t, each in times.items():
        groups.setdefault(slot(t, step), []).append(each)
    return {t: roll_up(points) for t, points in sorted(groups.items())}


def together(points: Iterable[Point]) -> Point:
    """Points of several GPUs and one span as one: sums of memory and power, mean utilisation,
    greatest temperature."""
    found = list(points)
    made: Point = {}
    for each in found:
        for name, value in each.items():
            if name.startswith(("temperature", "util_max")):
                made[name] = max(value, made.get(name, value))
            else:
                made[name] = made.get(name, 0) + value
    busy = [each["util"] for each in found if "util" in each]
    if busy:
        made["util"] = round(sum(busy) / len(busy))
    return made


def merge(old: Series, new: Series) -> Series:
    """Both; where both have a point, the new one."""
    return {gpu: {**old.get(gpu, {}), **new.get(gpu, {})} for gpu in {**old, **new}}


def pack(series: Series) -> bytes:
    """The series as compressed columns of differences, some 10 bytes for a point of a quiet GPU."""
    said = {}
    for gpu, times in series.items():
        order = sorted(times)
        names = sorted({name for each in times.values() for name in each})
        columns = {name: _differences([times[t].get(name) for t in order]) for name in names}
        said[gpu] = [_differences(order), columns]
    return zlib.compress(json.dumps(said, separators=(",", ":")).encode(), _LEVEL)


def unpack(body: bytes, only: str = "") -> Series:
    """What pack() was given; of `only` this GPU where one is named."""
    found: Series = {}
    for gpu, (order, columns) in json.loads(zlib.decompress(body)).items():
        if only and gpu != only:
            continue
        times = [t for t in _accumulate(order) if t is not None]
        points: list[Point] = [{} for _t in times]
        for name, differences in columns.items():
            for each, value in zip(points, _accumulate(differences), strict=True):
                if value is not None:
                    each[name] = value
        found[gpu] = dict(zip(times, points, strict=True))
    return found


def _differences(values: Sequence[int | None]) -> list[int | None]:
    made: list[int | None] = []
    before = 0
    for value in values:
        made.append(None if value is None else value - before)
        before = before if value is None else value
    return made


def _accumulate(differences: Iterable[int | None]) -> list[int | None]:
    made: list[int | None] = []
    total = 0
    for each in differences:
        total += each or 0
        made.append(None if each is None else total)
    return made


def together_by(series: Series, since: int, until: int, width: int) -> Times:
    """All GPUs of the series as one, in points of `width` seconds of this range."""
    spans: dict[int, list[Point]] = {}
    for times in series.values():
        within = {t: each for t, each in times.items() if since <= t < until}
        for t, each in rolled_up(within, width).items():
            spans.setdefault(t, []).append(each)
    return {t: each[0] if len(each) == 1 else together(each) for t, each in spans.items()}


def plan(
    since: float, until: float, *, reach: Mapping[int, float], first: float, most: int
) -> tuple[int, int]:
    """From points of which step a range is best told, and of how many seconds in at most `most`.

    `reach` says from when on there are points of each step, `first` when anything was recorded
    first. Where only coarse points reach back to the beginning of the range, they tell all of it.
    """
    least = max(1, -int(-(until - since) // most))
    begins = max(since, first) + max(SPANS)
    reaching = [step for step, at in reach.items() if at <= begins] or [max(SPANS)]
    fitting = [step for step in reaching if step <= least]
    step = max(fitting) if fitting else min(reaching)
    return step, -(-max(step, least) // step) * step


def columns(times: Mapping[int, Point], since: int, until: int, width: int) -> Mapping[str, object]:
    """The points as charts want them: one list of times without gaps, and a list a column.

    Where nothing was seen all columns are None. A part is 0 where only others were there.
    """
    grid = range(slot(since, width), until, width)
    names = sorted({name for each in times.values() for name in each})
    found: dict[str, list[int | None]] = {name: [] for name in names}
    for t in grid:
        each = times.get(t)
        for name in names:
            is_part = name[0] == "=" and each is not None and "=free" in each
            found[name].append(None if each is None else each.get(name, 0 if is_part else None))
    return {"t": list(grid), "columns": found}
