"""The page contexts of check-ups: a server's tab, lists of results, one result, several compared."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch
from django.template.loader import render_to_string

from servers.contexts.benchmark_figures import FigureCell, dump_charts, format_figure
from servers.contexts.benchmark_history import describe_history
from servers.contexts.promises import list_promised, list_promises
from servers.judge.benchmarks.capacity import CapacityLimits, ServerCapacity, find_capacity
from servers.judge.benchmarks.comparison import (
    FIGURES,
    BenchmarkFigure,
    MeasuredPoint,
    PointDifference,
    SpeedChange,
    compare_points,
    compare_speed,
)
from servers.judge.benchmarks.engine_bench import find_bench
from servers.judge.benchmarks.facts import list_differing, list_facts
from servers.judge.benchmarks.heat_maps import list_heat_maps
from servers.judge.benchmarks.plots import list_charts, plot_capacity
from servers.judge.benchmarks.presets import load_presets
from servers.judge.messages import Sentence, say
from servers.launch.engines import ENGINES
from servers.lifecycle.benchmarks.results import read_points, read_rows
from servers.lifecycle.benchmarks.subject import refuse
from servers.models import Benchmark, BenchmarkJob, BenchmarkPoint, Run, Server
from servers.models.benchmarks import BenchmarkQuerySet

OF_A_SERVER, OF_ALL = 20, 100  # results in a list
MOST_OFFERED = 8  # own results to compare an uploaded one with
MOST_COMPARED = 6
_LETTERS = "ABCDEF"
PAGES = frozenset({"server_checkup", "benchmark", "benchmarks"})
type Key = tuple[str, int | None]


@dataclass(frozen=True, kw_only=True)
class PointRow:
    label: str
    requests: int
    cells: tuple[FigureCell, ...]
    taints: tuple[Sentence, ...]


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """A result in a list, with the figures of its first point and the most of all together."""

    benchmark: Benchmark
    user_rate: FigureCell
    output_rate: FigureCell
    ttft: FigureCell


@dataclass(frozen=True, kw_only=True)
class CapacityVerdict:
    """In words: how many people, what nine of ten of them see, and what ends it."""

    people: str
    sees: tuple[str, ...]
    binds: Sentence | None
    limits: CapacityLimits


def find_checkup(server: Server, run: Run | None) -> dict[str, Any]:
    """What the tab of a server shows."""
    presets = load_presets().values()
    found = server.benchmarks.all()
    return {
        "depths": [each for each in presets if each.is_depth],
        "presets": [each for each in presets if not each.is_depth],
        "engine_bench": _name_engine_bench(run),
        "refusal": refuse(server.run),
        "under_way": _find_under_way(server),
        "mark": BenchmarkJob.objects.mark(),
        "results": list_results(found, OF_A_SERVER),
        **describe_history(found),
    }  # fmt: skip


def _name_engine_bench(run: Run | None) -> str:
    """ "vllm bench serve"; "" where the engine brings none."""
    bench = find_bench(ENGINES[run.version.launch.engine]) if run else None
    return bench.title if bench else ""


def _find_under_way(server: Server) -> Benchmark | None:
    """Its own check-up that goes on, else another one of its box; None where there is none."""
    going = list(Benchmark.objects.filter_open().filter(box=server.box).with_details())
    return min(going, key=lambda each: each.server_id != server.pk, default=None)


def render_mark(keys: set[Key], page: str) -> list[str]:
    """That pages of check-ups have become old."""
    if page not in PAGES or not keys & {("benchmarks", None), ("everything", None)}:
        return []
    shown = {"mark": BenchmarkJob.objects.mark()}
    return [render_to_string("benchmarks/_live_mark.html", shown)]


def list_results(found: BenchmarkQuerySet, most: int = OF_ALL) -> list[ResultRow]:
    points = Prefetch("points", queryset=BenchmarkPoint.objects.defer("requests"))
    return [_build_row(each) for each in found.with_details().prefetch_related(points)[:most]]


def _build_row(benchmark: Benchmark) -> ResultRow:
    points = read_rows(benchmark.points.all())
    user, output, first, *_others = FIGURES
    rates = [found.mean for point in points if (found := point.estimate(output))]
    return ResultRow(
        benchmark=benchmark,
        user_rate=format_figure(user, points[0]) if points else FigureCell(text="–"),
        output_rate=FigureCell(text=output.format(max(rates)) if rates else "–"),
        ttft=format_figure(first, points[0]) if points else FigureCell(text="–"),
    )


def describe_result(benchmark: Benchmark, limits: CapacityLimits) -> dict[str, Any]:
    """What the page of one shows."""
    points = read_points(benchmark)
    charts = list_charts([("", points)])
    capacity = find_capacity(points, limits)
    job = (
        BenchmarkJob.objects.filter(pk=benchmark.job_id or 0).first() if benchmark.is_open else None
    )
    others = Benchmark.objects.filter(server=benchmark.server_id, preset=benchmark.preset)
    figures = [each for each in FIGURES if any(point.estimate(each) for point in points)]
    return {
        "benchmark": benchmark,
        "mark": BenchmarkJob.objects.mark(),
        "job": job,
        "figures": figures,
        "rows": [_build_point(each, figures) for each in points],
        "command": benchmark.measured_on.get("command", ""),
        "facts": list_facts([benchmark.measured_on]),
        "plots": dump_charts([*(plot_capacity(capacity) if capacity else ()), *charts]),
        "capacity": _describe_capacity(capacity) if capacity else None,
        "plot_titles": [each.title for each in charts],
        "comparable": _list_comparable(benchmark) if benchmark.source else [],
        "promises": list_promises(benchmark, points),
        "heat_maps": list_heat_maps(points),
        "earlier": None
        if benchmark.source
        else others.filter(pk__lt=benchmark.pk, is_clean__isnull=False).first(),
    }


def _list_comparable(uploaded: Benchmark) -> list[Benchmark]:
    """The newest clean result of each server, of the same check-up where one is named."""
    found = Benchmark.objects.filter(source="", is_clean=True).with_details()
    if uploaded.preset:
        found = found.filter(preset=uploaded.preset, preset_version=uploaded.preset_version)
    newest = {each.server_name: each for each in reversed(found[:OF_ALL])}
    return list(newest.values())[-MOST_OFFERED:]


def _describe_capacity(found: ServerCapacity) -> CapacityVerdict:
    user, _output, first, *_others = FIGURES
    kept, broken, sees = found.kept, found.broken, []
    if kept is not None and kept.first is not None and kept.speed is not None:
        sees.append(
            f"Nine of ten wait at most {first.format(kept.first)} for their first token "
            f"and get {user.format(kept.speed)} tok/s or more."
        )
        if not kept.is_clean:
            sees.append("This point is not clean, so there may be room for more.")
    if broken is not None:
        told = []
        if broken.first is None or broken.speed is None:
            told.append("requests fail")
        else:
            if found.breaks_first:
                told.append(f"the first token takes {first.format(broken.first)}")
            if found.breaks_speed:
                told.append(f"each gets {user.format(broken.speed)} tok/s")
        sees.append(f"With {broken.people}, {' and '.join(told)}.")
    else:
        sees.append("More were not measured.")
    return CapacityVerdict(
        people=_name_people(found), sees=tuple(sees), binds=found.binds, limits=found.limits
    )


def _name_people(found: ServerCapacity) -> str:
    if found.kept is None:
        fewest = found.steps[0].people
        return "Too slow for one person" if fewest == 1 else f"Fewer than {fewest} people"
    people = "1 person" if found.kept.people == 1 else f"{found.kept.people} people"
    return people if found.broken else f"{people} or more"


def _build_point(point: MeasuredPoint, figures: Sequence[BenchmarkFigure]) -> PointRow:
    return PointRow(
        label=point.label,
        requests=sum(each.requests for each in point.rounds),
        cells=tuple(format_figure(figure, point) for figure in figures),
        taints=tuple(say(code) for code in point.taints),
    )


@dataclass(frozen=True, kw_only=True)
class ComparedResult:
    """`letter` names it in tables and plots. `change` is against the first, which has none."""

    letter: str
    benchmark: Benchmark
    change: SpeedChange | None
    verdicts: str  # "3 worse, 12 no difference that can be told"

    @property
    def share(self) -> str:
        """ "71 %" of what the first has; "" where they have no point in common."""
        return f"{100 * (1 + self.change.difference.change):.0f} %" if self.change else ""


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """A figure of a point. `cells`: one a result behind the first; None: it lacks the point."""

    point: MeasuredPoint
    figure: BenchmarkFigure
    first: str
    cells: tuple[tuple[str, PointDifference | None], ...]


def describe_comparison(results: Sequence[Benchmark]) -> dict[str, Any]:
    """Of two to MOST_COMPARED results, each against the first."""
    points = [read_points(each) for each in results]
    against = [compare_points(points[0], each) for each in points[1:]]
    compared = [ComparedResult(letter=_LETTERS[0], benchmark=results[0], change=None, verdicts="")]
    for letter, each, measured, differences in zip(
        _LETTERS[1:], results[1:], points[1:], against, strict=False
    ):
        compared.append(
            ComparedResult(
                letter=letter,
                benchmark=each,
                change=compare_speed(points[0], measured),
                verdicts=_count_verdicts(differences),
            )
        )
    return {
        "compared": compared,
        "rows": _build_compared(points[0], against),
        "changed": [
            (fact.name, list(zip(_LETTERS, fact.short_values, strict=False)))
            for fact in list_differing([each.measured_on for each in results])
        ],
        "promised": list_promised(list(zip(_LETTERS, results, points, strict=False))),
        "is_other_preset": len({(each.preset, each.preset_version) for each in results}) > 1,
        "plots": dump_charts(list_charts(list(zip(_LETTERS, points, strict=False)))),
    }


def _build_compared(
    points: Sequence[MeasuredPoint], against: Sequence[Sequence[PointDifference]]
) -> list[ComparedRow]:
    known = [{(each.point.key, each.figure.key): each for each in found} for found in against]
    rows = []
    for point in points:
        for figure in FIGURES:
            cells = [found.get((point.key, figure.key)) for found in known]
            if any(cells) and (one := point.estimate(figure)):
                rows.append(
                    ComparedRow(
                        point=point,
                        figure=figure,
                        first=figure.format(one.mean),
                        cells=tuple(zip(_LETTERS[1:], cells, strict=False)),
                    )
                )
    return rows


def _count_verdicts(differences: Sequence[PointDifference]) -> str:
    """ "3 worse, 1 better, 12 no difference that can be told"; "" for no point in common."""
    counts = Counter(each.verdict for each in differences)
    order = ("worse", "better", "no difference that can be told", "one round only")
    return ", ".join(f"{counts[word]} {word}" for word in order if counts[word])
