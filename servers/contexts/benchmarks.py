"""The page contexts of check-ups: a server's tab, lists of results, one result, two compared."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch
from django.template.loader import render_to_string

from servers.judge.benchmarks.capacity import CapacityLimits, ServerCapacity, find_capacity
from servers.judge.benchmarks.comparison import (
    FIGURES,
    BenchmarkFigure,
    MeasuredPoint,
    PointDifference,
    compare_points,
)
from servers.judge.benchmarks.presets import load_presets
from servers.judge.messages import Sentence, say
from servers.lifecycle.benchmarks.results import read_points, read_rows
from servers.lifecycle.benchmarks.subject import refuse
from servers.models import Benchmark, BenchmarkJob, BenchmarkPoint, Run, Server
from servers.models.benchmarks import BenchmarkQuerySet

OF_A_SERVER, OF_ALL = 20, 100  # results in a list
PAGES = frozenset({"server_checkup", "benchmark", "benchmarks"})
type Key = tuple[str, int | None]
_LONG = 1000  # tokens of a prompt that counts as a long one
_NAMES = {
    "profile": "Profile",
    "version": "Version",
    "model": "Model",
    "commit": "Model’s commit",
    "image": "Image",
    "image_digest": "Image digest",
    "engine": "Engine",
    "engine_version": "Engine version",
    "driver": "Driver",
    "cards": "GPUs",
}


@dataclass(frozen=True, kw_only=True)
class FigureCell:
    """`more`: where the mean lies, by its rounds; "" for one round, or where they agree."""

    text: str
    more: str = ""
    title: str = ""  # of its column


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


@dataclass(frozen=True, kw_only=True)
class MeasuredFact:
    name: str
    values: tuple[str, ...]  # one a result


def find_checkup(server: Server, run: Run | None) -> dict[str, Any]:
    """What the tab of a server shows."""
    presets = load_presets().values()
    found = server.benchmarks.all()
    return {
        "depths": [each for each in presets if each.is_depth],
        "presets": [each for each in presets if not each.is_depth],
        "refusal": refuse(server.run),
        "under_way": _find_under_way(server),
        "mark": BenchmarkJob.objects.mark(),
        "results": list_results(found, OF_A_SERVER),
    }  # fmt: skip


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
        user_rate=_format(user, points[0]) if points else FigureCell(text="–"),
        output_rate=FigureCell(text=output.format(max(rates)) if rates else "–"),
        ttft=_format(first, points[0]) if points else FigureCell(text="–"),
    )


def _format(figure: BenchmarkFigure, point: MeasuredPoint) -> FigureCell:
    found = point.estimate(figure)
    if found is None:
        return FigureCell(text="–", title=figure.title)
    half = (found.high - found.low) / 2 / found.mean if found.is_sure and found.mean else 0.0
    return FigureCell(
        text=figure.format(found.mean),
        more=f"±{100 * half:.0f} %" if half >= 0.005 else "",
        title=figure.title,
    )


def describe_result(benchmark: Benchmark, limits: CapacityLimits) -> dict[str, Any]:
    """What the page of one shows."""
    points = read_points(benchmark)
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
        "facts": list_facts([benchmark]),
        "plots": build_plots([("", points)], capacity),
        "capacity": _describe_capacity(capacity) if capacity else None,
        "earlier": others.filter(pk__lt=benchmark.pk, is_clean__isnull=False).first(),
    }


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
        cells=tuple(_format(figure, point) for figure in figures),
        taints=tuple(say(code) for code in point.taints),
    )


def list_facts(benchmarks: Sequence[Benchmark]) -> list[MeasuredFact]:
    """What they were measured on, as far as it is known of any."""
    found = []
    for key, name in _NAMES.items():
        values = tuple(_format_fact(each.measured_on.get(key)) for each in benchmarks)
        if any(values):
            found.append(MeasuredFact(name=name, values=tuple(each or "–" for each in values)))
    return found


def _format_fact(value: Any) -> str:
    if isinstance(value, list):  # cards
        names = [str(each.get("name") or "").removeprefix("NVIDIA ") for each in value]
        kinds = {name: names.count(name) for name in names}
        return ", ".join(f"{count} × {name}" for name, count in kinds.items())
    return "" if value is None else str(value)


def describe_comparison(before: Benchmark, after: Benchmark) -> dict[str, Any]:
    one, other = read_points(before), read_points(after)
    facts = list_facts([before, after])
    differences = compare_points(one, other)
    return {
        "before": before,
        "after": after,
        "differences": differences,
        "verdicts": _count_verdicts(differences),
        "changed": [each for each in facts if len(set(each.values)) > 1],
        "is_other_preset": (before.preset, before.preset_version)
        != (after.preset, after.preset_version),
        "plots": build_plots([("before", one), ("after", other)]),
    }


def _count_verdicts(differences: Sequence[PointDifference]) -> str:
    """ "3 worse, 1 better, 12 no difference that can be told." """
    counts = Counter(each.verdict for each in differences)
    order = ("worse", "better", "no difference that can be told", "one round only")
    return ", ".join(f"{counts[word]} {word}" for word in order if counts[word]) + "."


def build_plots(
    results: Iterable[tuple[str, Sequence[MeasuredPoint]]], capacity: ServerCapacity | None = None
) -> str:
    """JSON for <benchmark-plots>; "" where there is nothing to plot."""
    user, output, first, *_others = FIGURES
    trade, waits, context = [], [], []
    for name, points in results:
        crowd = [each for each in points if 0 < each.prompt_tokens < _LONG]
        alone = [each for each in points if each.concurrency == 1 and each.prompt_tokens]
        trade.append(_series(name, [(_mean(each, user), _mean(each, output)) for each in crowd]))
        waits.append(_series(name, [(each.concurrency, _mean(each, first)) for each in crowd]))
        context.append(_series(name, [(each.prompt_tokens, _mean(each, user)) for each in alone]))
    charts: list[dict[str, Any]] = [
        {"title": "Speed per person and together", "x": "tok/s per person", "y": "tok/s together",
         "series": trade},
        {"title": "Wait for the first token", "x": "people at once", "y": "seconds", "log": True,
         "series": waits},
        {"title": "Speed by length of prompt", "x": "tokens of prompt", "y": "tok/s per person",
         "log": True, "series": context},
    ]  # fmt: skip
    if capacity:
        charts.insert(0, _plot_capacity(capacity))
    shown = [each for each in charts if any(len(line["points"]) > 1 for line in each["series"])]
    return json.dumps(shown) if shown else ""


def _plot_capacity(capacity: ServerCapacity) -> dict[str, Any]:
    people = [step.people for step in capacity.steps]
    limit = [(each, capacity.limits.speed) for each in (min(people), max(people))]
    return {
        "title": "People against speed",
        "x": "people at once",
        "y": "tok/s for nine of ten",
        "log": True,
        "series": [
            _series("nine of ten", [(step.people, step.speed) for step in capacity.steps]),
            _series("limit", limit),
        ],
    }


def _mean(point: MeasuredPoint, figure: BenchmarkFigure) -> float | None:
    found = point.estimate(figure)
    return found.mean if found else None


def _series(name: str, points: Iterable[tuple[float | None, float | None]]) -> dict[str, Any]:
    known = {round(x, 3): round(y, 4) for x, y in points if x is not None and y is not None}
    return {"name": name, "points": sorted(known.items())}
