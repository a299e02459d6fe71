"""The history of clean results: of one server, or of all servers of a profile."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Max, Prefetch

from servers.contexts.benchmark_figures import FigureCell, dump_charts, format_figure
from servers.judge.benchmarks.comparison import FIGURES
from servers.judge.benchmarks.history import (
    HistoryEntry,
    HistoryStep,
    HistoryTurn,
    find_turn,
    list_steps,
)
from servers.judge.benchmarks.plots import list_history_charts, read_output_rate
from servers.judge.benchmarks.presets import load_presets
from servers.lifecycle.benchmarks.results import read_rows
from servers.models import Benchmark, BenchmarkPoint
from servers.models.benchmarks import BenchmarkQuerySet

MOST = 60  # results of a history, the newest


@dataclass(frozen=True, kw_only=True)
class HistoryRow:
    benchmark: Benchmark
    step: HistoryStep
    user_rate: FigureCell
    output_rate: FigureCell
    ttft: FigureCell


@dataclass(frozen=True, kw_only=True)
class ServerTurn:
    """What the last change did to one server."""

    server: str
    turn: HistoryTurn


def describe_history(found: BenchmarkQuerySet, preset: str = "") -> dict[str, Any]:
    """Of clean, whole results of one check-up: `preset`, or else the one with the most of them."""
    clean = found.filter_clean()
    known = load_presets()
    # By preset, how many of its present version: two versions are not compared.
    counts = {
        each["preset"]: each["count"]
        for each in clean.order_by()
        .values("preset", "preset_version")
        .annotate(count=Count("pk"), newest=Max("pk"))
        .order_by("-count", "-newest")
        if each["preset"] in known and known[each["preset"]].version == each["preset_version"]
    }
    chosen = preset if preset in counts else next(iter(counts), "")
    if not chosen:
        return {"history": [], "history_presets": []}
    points = Prefetch("points", queryset=BenchmarkPoint.objects.defer("requests"))
    of_preset = clean.filter(preset=chosen, preset_version=known[chosen].version)
    newest = list(of_preset.with_details().prefetch_related(points)[:MOST])
    lines = _group(newest)
    turns = [
        ServerTurn(server=name, turn=turn) for name, steps in lines if (turn := find_turn(steps))
    ]
    by_key = {step.entry.key: step for _name, steps in lines for step in steps}
    named = lines if len(lines) > 1 else [("", steps) for _name, steps in lines]
    return {
        "history": [_build_row(each, by_key[each.pk]) for each in newest],
        "history_presets": [known[key] for key in known if key in counts],
        "history_preset": known[chosen],
        "history_turns": turns,
        "history_servers": len(lines),
        "history_plots": dump_charts(list_history_charts(named)),
    }


def _group(newest: Sequence[Benchmark]) -> list[tuple[str, list[HistoryStep]]]:
    """By server, oldest first."""
    servers: dict[str, list[HistoryEntry]] = {}
    for each in reversed(newest):
        entry = HistoryEntry(
            key=each.pk,
            at=each.asked_at,
            on=each.measured_on,
            points=tuple(read_rows(each.points.all())),
        )
        servers.setdefault(each.server_name, []).append(entry)
    return [(name, list_steps(entries)) for name, entries in sorted(servers.items())]


def _build_row(benchmark: Benchmark, step: HistoryStep) -> HistoryRow:
    user, output, first, *_others = FIGURES
    points, most = step.entry.points, read_output_rate(step.entry)
    return HistoryRow(
        benchmark=benchmark,
        step=step,
        user_rate=format_figure(user, points[0]) if points else FigureCell(text="–"),
        output_rate=FigureCell(text="–" if most is None else output.format(most)),
        ttft=format_figure(first, points[0]) if points else FigureCell(text="–"),
    )
