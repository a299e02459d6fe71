"""Figures of check-ups as pages show them: cells of tables, and data for plots."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass

from servers.judge.benchmarks.comparison import BenchmarkFigure, MeasuredPoint
from servers.judge.benchmarks.plots import PlotChart


@dataclass(frozen=True, kw_only=True)
class FigureCell:
    """`more`: where the mean lies, by its rounds; "" for one round, or where they agree."""

    text: str
    more: str = ""
    title: str = ""  # of its column


def format_figure(figure: BenchmarkFigure, point: MeasuredPoint) -> FigureCell:
    found = point.estimate(figure)
    if found is None:
        return FigureCell(text="–", title=figure.title)
    half = (found.high - found.low) / 2 / found.mean if found.is_sure and found.mean else 0.0
    return FigureCell(
        text=figure.format(found.mean),
        more=f"±{100 * half:.0f} %" if half >= 0.005 else "",
        title=figure.title,
    )


def dump_charts(charts: Sequence[PlotChart]) -> str:
    """JSON for <benchmark-plots>; "" where there is nothing to plot."""
    return json.dumps([dataclasses.asdict(each) for each in charts]) if charts else ""
