"""Tokens by day: the bars of a chart, what was read and what was written on each other."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

HEIGHT = 120  # px of the tallest bar
TOP, BOTTOM, AXIS, RIGHT = 8, 22, 56, 16  # px around the bars
_ROOM = 640  # px for all bars
_WIDEST = 72
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


def chart(days: Mapping[date, tuple[int, int]], since: date, until: date) -> UsageChart:
    """Tokens read and written by day; a day that is not there had none. Both ends are drawn."""
    count = (until - since).days + 1
    most = max((read + written for read, written in days.values()), default=0)
    top = _round_up(most)
    step = min(_WIDEST, _ROOM / count)
    every = max(1, math.ceil(count / _LABELS), math.ceil(LABEL / step))
    bars = []
    for number in range(count):
        day = since + timedelta(days=number)
        read, written = days.get(day, (0, 0))
        read_height, written_height = HEIGHT * read / top, HEIGHT * written / top
        bars.append(
            UsageBar(
                day=day,
                x=AXIS + number * step,
                width=step * 0.8,
                read=read,
                written=written,
                read_y=TOP + HEIGHT - read_height,
                read_height=read_height,
                written_y=TOP + HEIGHT - read_height - written_height,
                written_height=written_height,
                # Counted from today, which is always named.
                is_labelled=(count - 1 - number) % every == 0,
            )
        )
    marks = range(_LINES + 1) if most else ()
    lines = [
        UsageGridLine(y=TOP + HEIGHT * (1 - mark / _LINES), tokens=top * mark // _LINES)
        for mark in marks
    ]
    return UsageChart(
        bars=tuple(bars),
        lines=tuple(lines),
        width=AXIS + count * step + RIGHT,
        height=TOP + HEIGHT + BOTTOM,
        base=TOP + HEIGHT,
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
