"""Charts of bars: the time to ready, start by start, and the tokens by day."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from statistics import median

# Parts that are drawn: their words, and the states and phases that each is made of.
PARTS = {
    "before": "before its container ran",
    "weights": "weights",
    "compiling": "compiling and CUDA graphs",
    "rest": "everything else",
    "whole": "phases not known",
}
_PART_OF = {
    **dict.fromkeys(("queued", "pulling", "creating"), "before"),
    **dict.fromkeys(("downloading", "loading"), "weights"),
    **dict.fromkeys(("compiling", "tuning", "capturing"), "compiling"),
}
# One shape a box, beneath its bars; further boxes share the last.
SHAPES = "●▲■◆▼★"

HEIGHT = 140  # px of the tallest bar
TOP, BOTTOM, AXIS = 16, 40, 56  # px around the bars
_ROOM = 640  # px for the bars of many starts
_WIDEST, _NARROWEST = 30, 7
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_MOST_LINES = 4


@dataclass(frozen=True, kw_only=True)
class ChartedStart:
    run: int
    server: str
    box: str
    version: int
    when: datetime
    took: float  # seconds from the click until it was ready, or until it failed
    is_ready: bool
    parts: Mapping[str, float]  # state or phase -> seconds; {}: not known


@dataclass(frozen=True, kw_only=True)
class StartSegment:
    part: str  # of PARTS
    y: float
    height: float


@dataclass(frozen=True, kw_only=True)
class StartBar:
    start: ChartedStart
    x: float
    width: float
    top: float
    segments: tuple[StartSegment, ...]
    shape: str  # of its box; "" where all are on one

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, kw_only=True)
class Band:
    """Neighbours of one version."""

    version: int
    x: float
    width: float
    is_labelled: bool
    is_odd: bool


@dataclass(frozen=True, kw_only=True)
class StartGridLine:
    y: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class StartChart:
    width: float
    height: float
    base: float  # where bars stand
    bars: tuple[StartBar, ...]
    bands: tuple[Band, ...]
    lines: tuple[StartGridLine, ...]
    shapes: tuple[tuple[str, str], ...]  # of boxes: shape, slug; () where all are on one
    parts: tuple[tuple[str, str], ...]  # that are drawn: key and words of PARTS
    medians: tuple[tuple[int, float, int], ...]  # version, seconds, good starts; newest first

    @property
    def has_failed(self) -> bool:
        """Whether one of the starts has failed."""
        return any(not bar.start.is_ready for bar in self.bars)


def chart(starts: Sequence[ChartedStart]) -> StartChart | None:
    """The chart of these starts, the oldest first; None where there is none. Sizes are in px."""
    if not starts:
        return None
    slot = max(min(_ROOM / len(starts), _WIDEST), _NARROWEST)
    lines, scale = _axis(max(each.took for each in starts))
    boxes = sorted({each.box for each in starts})
    shapes = {box: SHAPES[min(place, len(SHAPES) - 1)] for place, box in enumerate(boxes)}
    bars = tuple(
        _bar(each, AXIS + place * slot, slot, scale, shapes[each.box] if len(boxes) > 1 else "")
        for place, each in enumerate(starts)
    )
    drawn = {segment.part for bar in bars for segment in bar.segments}
    return StartChart(
        width=AXIS + slot * len(starts) + 8,
        height=TOP + HEIGHT + BOTTOM,
        base=TOP + HEIGHT,
        bars=bars,
        bands=tuple(_bands(starts, slot)),
        lines=lines,
        shapes=tuple((shapes[box], box) for box in boxes) if len(boxes) > 1 else (),
        parts=tuple((key, words) for key, words in PARTS.items() if key in drawn),
        medians=tuple(_medians(starts)),
    )


def _axis(longest: float) -> tuple[tuple[StartGridLine, ...], float]:
    """Lines at round times, and how many px a second takes."""
    longest = max(longest, 1.0)
    step = next((each for each in _STEPS if longest / each <= _MOST_LINES), longest / _MOST_LINES)
    count = math.ceil(longest / step)
    scale = HEIGHT / (count * step)
    lines = (
        StartGridLine(y=_px(TOP + HEIGHT - n * step * scale), seconds=n * step)
        for n in range(count + 1)
    )
    return tuple(lines), scale


def _bar(start: ChartedStart, x: float, slot: float, scale: float, shape: str) -> StartBar:
    gap = 1 if slot < 12 else 4
    segments, bottom = [], float(TOP + HEIGHT)
    for part, seconds in _in_parts(start).items():
        height = seconds * scale
        bottom -= height
        segments.append(StartSegment(part=part, y=_px(bottom), height=_px(height)))
    return StartBar(
        start=start,
        x=_px(x),
        width=_px(slot - gap),
        top=_px(bottom),
        segments=tuple(segments),
        shape=shape,
    )


def _in_parts(start: ChartedStart) -> dict[str, float]:
    """Seconds of each of PARTS, in their order; together they are what the start took."""
    if not start.parts:
        return {"whole": start.took}
    sums = dict.fromkeys(PARTS, 0.0)
    for name, seconds in start.parts.items():
        sums[_PART_OF.get(name, "rest")] += seconds
    known = sum(sums.values())
    # Between two moments that different clocks have stamped a little may be missing.
    sums["rest"] += max(start.took - known, 0.0)
    scale = start.took / max(sum(sums.values()), 1e-9)
    return {part: seconds * scale for part, seconds in sums.items() if seconds > 0}


def _bands(starts: Sequence[ChartedStart], slot: float) -> Iterator[Band]:
    place, labelled_upto = 0, 0.0
    for number, (version, group) in enumerate(groupby(starts, key=lambda each: each.version)):
        count = len(list(group))
        x, room = AXIS + place * slot, 7.0 * len(f"v{version}") + 6
        # A label that would run into the one before it is left out.
        is_labelled = x >= labelled_upto
        labelled_upto = x + room if is_labelled else labelled_upto
        yield Band(
            version=version,
            x=_px(x),
            width=_px(count * slot),
            is_labelled=is_labelled,
            is_odd=bool(number % 2),
        )
        place += count


def _medians(starts: Sequence[ChartedStart]) -> Iterator[tuple[int, float, int]]:
    good: dict[int, list[float]] = {}
    for each in starts:
        if each.is_ready:
            good.setdefault(each.version, []).append(each.took)
    for version in sorted(good, reverse=True):
        yield version, median(good[version]), len(good[version])


def _px(value: float) -> float:
    return round(value, 1)


_USAGE_HEIGHT = 120  # px of the tallest bar
_USAGE_TOP, _USAGE_BOTTOM, RIGHT = 8, 22, 16  # px around the bars
_WIDEST_DAY = 72
_LINES = 3
_LABELS = 8  # days that are written below the bars, about
LABEL = 52  # px that one of them takes, with room beside it


@dataclass(frozen=True, kw_only=True)
class UsageBar:
    day: date
    x: float
    width: float
    read: int
    written: int
    read_y: float
    read_height: float
    written_y: float
    written_height: float
    is_labelled: bool

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, kw_only=True)
class UsageGridLine:
    y: float
    tokens: int


@dataclass(frozen=True, kw_only=True)
class UsageChart:
    bars: tuple[UsageBar, ...]
    lines: tuple[UsageGridLine, ...]
    width: float
    height: float
    base: float


def draw_usage(days: Mapping[date, tuple[int, int]], since: date, until: date) -> UsageChart:
    """Tokens read and written by day; a day that is not there had none. Both ends are drawn."""
    count = (until - since).days + 1
    most = max((read + written for read, written in days.values()), default=0)
    top = _round_up(most)
    step = min(_WIDEST_DAY, _ROOM / count)
    every = max(1, math.ceil(count / _LABELS), math.ceil(LABEL / step))
    bars = []
    for number in range(count):
        day = since + timedelta(days=number)
        read, written = days.get(day, (0, 0))
        read_height, written_height = _USAGE_HEIGHT * read / top, _USAGE_HEIGHT * written / top
        bars.append(
            UsageBar(
                day=day,
                x=AXIS + number * step,
                width=step * 0.8,
                read=read,
                written=written,
                read_y=_USAGE_TOP + _USAGE_HEIGHT - read_height,
                read_height=read_height,
                written_y=_USAGE_TOP + _USAGE_HEIGHT - read_height - written_height,
                written_height=written_height,
                # Counted from today, which is always named.
                is_labelled=(count - 1 - number) % every == 0,
            )
        )
    marks = range(_LINES + 1) if most else ()
    lines = [
        UsageGridLine(
            y=_USAGE_TOP + _USAGE_HEIGHT * (1 - mark / _LINES), tokens=top * mark // _LINES
        )
        for mark in marks
    ]
    return UsageChart(
        bars=tuple(bars),
        lines=tuple(lines),
        width=AXIS + count * step + RIGHT,
        height=_USAGE_TOP + _USAGE_HEIGHT + _USAGE_BOTTOM,
        base=_USAGE_TOP + _USAGE_HEIGHT,
    )


def _round_up(most: int) -> int:
    """The next of 3, 6, 15, 30 … that is no less: a third of it is a plain number, too."""
    if most <= 0:
        return _LINES
    power: int = 10 ** max(0, len(str(most)) - 2)
    while True:
        for factor in (3, 6, 15, 30):
            if factor * power >= most:
                return factor * power
        power *= 10
