"""Plots of results as SVG files: for a post or a document, readable on light and dark pages alike."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from servers.judge.benchmarks.plots import PlotChart

WIDTH, HEIGHT = 720, 400  # of a plot, px
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 64, 48
_COLOURS = ("#2257d6", "#b06f00", "#17713a", "#96195f", "#b3261e", "#59616d")
_DASHES = ("", "6 4", "2 4", "10 4", "10 4 2 4", "3 3")
_TEXT, _QUIET, _LINE = "#14181f", "#59616d", "#d5d9e0"
_TICKS = 5


def draw_charts(charts: Sequence[PlotChart], *, title: str) -> str:
    """One file, the plots below each other on white."""
    height = HEIGHT * len(charts)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for place, chart in enumerate(charts):
        parts += [f'<g transform="translate(0 {place * HEIGHT})">', *_draw(chart, title), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _draw(chart: PlotChart, title: str) -> Iterable[str]:
    points = [point for line in chart.series for point in line.points]
    high = _round_up(max((y for _x, y in points), default=1.0) or 1.0)
    ends = _find_ends([x for x, _y in points], chart)

    def place_x(x: float) -> float:
        low, far = ends
        share = math.log(x / low) / math.log(far / low) if chart.log else (x - low) / (far - low)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def place_y(y: float) -> float:
        return HEIGHT - _BOTTOM - y / high * (HEIGHT - _TOP - _BOTTOM)

    yield _write(_LEFT, 22, f"{chart.title}", size=15, weight=600)
    yield _write(WIDTH - _RIGHT, 22, title, anchor="end", colour=_QUIET)
    for number in range(_TICKS + 1):
        value = high * number / _TICKS
        y = place_y(value)
        yield f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" stroke="{_LINE}"/>'
        yield _write(_LEFT - 8, y + 4, _format(value), anchor="end", colour=_QUIET)
    for value in _list_ticks(points, ends, chart):
        label = f"{datetime.fromtimestamp(value, UTC):%-d %b}" if chart.time else _format(value)
        yield _write(place_x(value), HEIGHT - _BOTTOM + 18, label, anchor="middle", colour=_QUIET)
    below = chart.y if chart.time else f"{chart.y} against {chart.x}"
    yield _write(_LEFT, HEIGHT - 10, below, colour=_QUIET)
    for number, line in enumerate(chart.series):
        colour, dash = _COLOURS[number % 6], _DASHES[number % 6]
        if line.name:
            x = _LEFT + 110 * number
            yield f'<path d="M{x} 42h20" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
            yield _write(x + 26, 46, line.name[:14])
        steps = [f"{place_x(x):.1f} {place_y(y):.1f}" for x, y in line.points]
        if steps:
            yield (
                f'<path d="M{"L".join(steps)}" fill="none" stroke="{colour}" stroke-width="2" '
                f'stroke-dasharray="{dash}"/>'
            )
        for step in steps:
            x_text, y_text = step.split()
            yield f'<circle cx="{x_text}" cy="{y_text}" r="3.5" fill="{colour}"/>'


def _find_ends(values: Sequence[float], chart: PlotChart) -> tuple[float, float]:
    low, high = min(values, default=1.0), max(values, default=2.0)
    if chart.log:
        low = max(low, 1.0)
        return low, max(high, 2 * low)
    if chart.time:
        return low, max(high, low + 60)
    return 0.0, _round_up(high or 1.0)


def _list_ticks(
    points: Sequence[tuple[float, float]], ends: tuple[float, float], chart: PlotChart
) -> list[float]:
    if chart.log:
        return sorted({x for x, _y in points if x >= ends[0]})
    low, high = ends
    return [low + (high - low) * number / _TICKS for number in range(_TICKS + 1)]


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * 0.999)


def _format(value: float) -> str:
    if value >= 1000 and value % 1000 == 0:
        return f"{value / 1000:.0f}k"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _write(
    x: float, y: float, text: str, *, anchor: str = "start", colour: str = _TEXT, size: int = 12,
    weight: int = 400,
) -> str:  # fmt: skip
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}" font-weight="{weight}">{escape(text)}</text>'
    )
