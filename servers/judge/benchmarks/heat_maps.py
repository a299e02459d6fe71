"""Heat maps of grids: a figure by people at once and length of prompt, the best cells in the strongest colour."""

from collections.abc import Sequence
from dataclasses import dataclass

from servers.judge.benchmarks.comparison import FIGURES, GRIDS, BenchmarkFigure, MeasuredPoint

LEVELS = 5
_WIDTH, _HEIGHT = 76, 34  # of a cell, px
_LEFT, _TOP = 58, 26
_SHOWN = ("user_rate", "output_rate", "ttft")


@dataclass(frozen=True, kw_only=True)
class HeatCell:
    """`level`: 0 is the worst of the map, LEVELS the best; None where nothing was measured."""

    text: str
    level: int | None
    is_clean: bool
    x: int
    y: int

    @property
    def middle(self) -> tuple[int, int]:
        return self.x + _WIDTH // 2, self.y + _HEIGHT // 2 + 4


@dataclass(frozen=True, kw_only=True)
class HeatRow:
    name: str  # "16k"
    y: int
    cells: tuple[HeatCell, ...]


@dataclass(frozen=True, kw_only=True)
class HeatMap:
    key: str
    title: str
    unit: str
    people: tuple[tuple[int, int], ...]  # with the middle of their column
    rows: tuple[HeatRow, ...]
    width: int
    height: int
    cell_width: int = _WIDTH - 2
    cell_height: int = _HEIGHT - 2


def list_heat_maps(points: Sequence[MeasuredPoint]) -> list[HeatMap]:
    """Of points that differ in both, people and lengths; none of others."""
    grid = [each for each in points if each.name in GRIDS and each.prompt_tokens]
    people = sorted({each.concurrency for each in grid})
    lengths = sorted({each.prompt_tokens for each in grid})
    if len(people) < 2 or len(lengths) < 2:
        return []
    found = {(each.prompt_tokens, each.concurrency): each for each in grid}
    figures = [each for each in FIGURES if each.key in _SHOWN]
    return [_build(figure, found, people, lengths) for figure in figures]


def _build(
    figure: BenchmarkFigure,
    found: dict[tuple[int, int], MeasuredPoint],
    people: Sequence[int],
    lengths: Sequence[int],
) -> HeatMap:
    values = {
        key: estimated.mean
        for key, point in found.items()
        if (estimated := point.estimate(figure)) is not None
    }
    low, high = min(values.values(), default=0.0), max(values.values(), default=0.0)

    def build_cell(row: int, column: int) -> HeatCell:
        key = lengths[row], people[column]
        value, point = values.get(key), found.get(key)
        level = None
        if value is not None:
            share = (value - low) / (high - low) if high > low else 1.0
            level = round(LEVELS * (share if figure.more_is_better else 1 - share))
        return HeatCell(
            text="–" if value is None else figure.format(value),
            level=level,
            is_clean=point is None or not point.taints,
            x=_LEFT + column * _WIDTH,
            y=_TOP + row * _HEIGHT,
        )

    return HeatMap(
        key=figure.key,
        title=figure.title,
        unit="" if figure.unit == "s" else figure.unit,
        people=tuple(
            (each, _LEFT + column * _WIDTH + _WIDTH // 2) for column, each in enumerate(people)
        ),
        rows=tuple(
            HeatRow(
                name=f"{length // 1000}k" if length >= 1000 else str(length),
                y=_TOP + row * _HEIGHT + _HEIGHT // 2 + 4,
                cells=tuple(build_cell(row, column) for column in range(len(people))),
            )
            for row, length in enumerate(lengths)
        ),
        width=_LEFT + len(people) * _WIDTH,
        height=_TOP + len(lengths) * _HEIGHT,
    )
