"""Plots of results: the curves that people expect, and speed over time with what changed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from servers.judge.benchmarks.capacity import ServerCapacity
from servers.judge.benchmarks.comparison import FIGURES, BenchmarkFigure, MeasuredPoint
from servers.judge.benchmarks.history import HistoryEntry, HistoryStep

_CACHED = next(each for each in FIGURES if each.key == "cached_share")
_LONG = 1000  # tokens of a prompt that counts as a long one


@dataclass(frozen=True, kw_only=True)
class PlotSeries:
    """Points by x."""

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class PlotMark:
    """Something that changed at a moment, in a word or two."""

    at: float
    words: str


@dataclass(frozen=True, kw_only=True)
class PlotChart:
    """x in powers of two where `log`, unix seconds where `time`; y from 0."""

    title: str
    x: str
    y: str
    series: tuple[PlotSeries, ...]
    log: bool = False
    time: bool = False
    marks: tuple[PlotMark, ...] = ()


def list_charts(results: Sequence[tuple[str, Sequence[MeasuredPoint]]]) -> list[PlotChart]:
    """Of one result, or of several by their names: those where one has two points at least."""
    user, output, first, *_others = FIGURES
    turns = [(name, list(_list_turns(points))) for name, points in results]
    crowds = [(name, _list_crowd(points)) for name, points in results]
    alone = [
        (name, [each for each in points if each.is_alone and each.prompt_tokens])
        for name, points in results
    ]
    charts = (
        PlotChart(
            title="Speed per person and together",
            x="tok/s per person",
            y="tok/s together",
            series=tuple(
                _connect(name, ((_mean(each, user), _mean(each, output)) for each in points))
                for name, points in crowds
            ),
        ),
        PlotChart(
            title="Wait for the first token",
            x="people at once",
            y="seconds",
            log=True,
            series=tuple(
                _connect(name, ((each.concurrency, _mean(each, first)) for each in points))
                for name, points in crowds
            ),
        ),
        PlotChart(
            title="Speed by length of prompt",
            x="tokens of prompt",
            y="tok/s per person",
            log=True,
            series=tuple(
                _connect(name, ((each.prompt_tokens, _mean(each, user)) for each in points))
                for name, points in alone
            ),
        ),
        PlotChart(
            title="From cache, by turn",
            x="turn",
            y="% of the prompt",
            series=tuple(
                _connect(name, ((turn, _mean(each, _CACHED)) for turn, each in points))
                for name, points in turns
            ),
        ),
        PlotChart(
            title="Wait for the first token, by turn",
            x="turn",
            y="seconds",
            series=tuple(
                _connect(name, ((turn, _mean(each, first)) for turn, each in points))
                for name, points in turns
            ),
        ),
    )
    return [each for each in charts if any(len(line.points) > 1 for line in each.series)]


def plot_capacity(capacity: ServerCapacity) -> list[PlotChart]:
    """One, or none of a single step."""
    people = [step.people for step in capacity.steps]
    limit = [(each, capacity.limits.speed) for each in (min(people), max(people))]
    steps = _connect("nine of ten", ((step.people, step.speed) for step in capacity.steps))
    chart = PlotChart(
        title="People against speed",
        x="people at once",
        y="tok/s for nine of ten",
        log=True,
        series=(steps, _connect("limit", limit)),
    )
    return [chart] if any(len(line.points) > 1 for line in chart.series) else []


def _list_turns(points: Sequence[MeasuredPoint]) -> Iterator[tuple[int, MeasuredPoint]]:
    for each in points:
        if each.turn is not None:
            yield each.turn, each


def _list_crowd(points: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    return [each for each in points if 0 < each.prompt_tokens < _LONG and not each.is_open_loop]


def list_history_charts(lines: Sequence[tuple[str, Sequence[HistoryStep]]]) -> list[PlotChart]:
    """Speed of one person and the most of all together over time, a line a server."""
    marks = tuple(
        PlotMark(
            at=step.entry.at.timestamp(),
            words=", ".join(dict.fromkeys(each.mark for each in step.changed)),
        )
        for _name, steps in lines
        for step in steps
        if step.changed
    )
    charts = []
    for title, read in (("One person", read_user_rate), ("All together", read_output_rate)):
        series = tuple(
            _connect(name, ((step.entry.at.timestamp(), read(step.entry)) for step in steps))
            for name, steps in lines
        )
        if any(len(each.points) > 1 for each in series):
            charts.append(
                PlotChart(title=title, x="time", y="tok/s", series=series, time=True, marks=marks)
            )
    return charts


def read_user_rate(entry: HistoryEntry) -> float | None:
    """Tokens a second of a person in its first point."""
    return _mean(entry.points[0], FIGURES[0]) if entry.points else None


def read_output_rate(entry: HistoryEntry) -> float | None:
    """The most tokens a second of all its points."""
    rates = [_mean(point, FIGURES[1]) for point in entry.points]
    return max((rate for rate in rates if rate is not None), default=None)


def _mean(point: MeasuredPoint, figure: BenchmarkFigure) -> float | None:
    found = point.estimate(figure)
    return found.mean if found else None


def _connect(name: str, points: Iterable[tuple[float | None, float | None]]) -> PlotSeries:
    known = {round(x, 3): round(y, 4) for x, y in points if x is not None and y is not None}
    return PlotSeries(name=name, points=tuple(sorted(known.items())))
