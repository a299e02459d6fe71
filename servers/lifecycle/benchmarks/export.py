"""Exports of a result: JSON with every request, CSV with a line a round, Markdown, SVG, cards."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.benchmarks.cards import make_card
from servers.judge.benchmarks.comparison import FIGURES
from servers.judge.benchmarks.plots import list_charts
from servers.judge.benchmarks.svg import draw_charts
from servers.judge.messages import say
from servers.lifecycle.benchmarks.results import read_points, read_rows
from servers.models import Benchmark


@dataclass(frozen=True, kw_only=True)
class ExportForm:
    content_type: str
    suffix: str


FORMS: Mapping[str, ExportForm] = {
    "json": ExportForm(content_type="application/json", suffix="json"),
    "csv": ExportForm(content_type="text/csv", suffix="csv"),
    "markdown": ExportForm(content_type="text/markdown", suffix="md"),
    "svg": ExportForm(content_type="image/svg+xml", suffix="svg"),
    "card": ExportForm(content_type="application/json", suffix="card.json"),
}


def export_text(benchmark: Benchmark, form: str, plot: int | None = None) -> str:
    """`form`: of FORMS. `plot`: from 0, the only one of an SVG; None: all of them. Raises
    ValueError where it has none, or not this one."""
    match form:
        case "svg":
            charts = list_charts([("", read_points(benchmark))])
            chosen = charts if plot is None else charts[plot : plot + 1]
            if not chosen:
                raise ValueError("It has too few points for a plot.")
            return draw_charts(chosen, title=str(benchmark))
        case "card":
            return json.dumps(to_card(benchmark), ensure_ascii=False, indent=1) + "\n"
        case "json":
            return json.dumps(to_json(benchmark), ensure_ascii=False, indent=1) + "\n"
        case "csv":
            return _to_csv(benchmark)
        case _:
            return _to_markdown(benchmark)


def to_card(benchmark: Benchmark) -> dict[str, Any]:
    """For another inferdash."""
    return make_card(
        preset=benchmark.preset,
        preset_version=benchmark.preset_version,
        title=benchmark.title,
        at=benchmark.asked_at,
        on=benchmark.measured_on,
        points=read_points(benchmark),
    )


def to_json(benchmark: Benchmark) -> dict[str, Any]:
    """The whole of it; `schema` changes with the meaning of a key. Seconds, and tokens a second."""
    return {
        "schema": benchmark.schema,
        "preset": benchmark.preset,
        "preset_version": benchmark.preset_version,
        "server": benchmark.server_name,
        "box": benchmark.box.slug if benchmark.box else None,
        "state": benchmark.state,
        "is_clean": benchmark.is_clean,
        "began": benchmark.begun_at.isoformat() if benchmark.begun_at else None,
        "ended": benchmark.ended_at.isoformat() if benchmark.ended_at else None,
        "measured_on": benchmark.measured_on,
        "points": [
            {
                "name": row.name,
                "concurrency": row.concurrency,
                "prompt_tokens": row.prompt_tokens,
                "output_tokens": row.output_tokens,
                "taints": row.taints,
                "rounds": [
                    # Single requests of old results are not kept.
                    {**each, "requests": row.requests[number] if row.requests else []}
                    for number, each in enumerate(row.rounds)
                ],
            }
            for row in benchmark.points.all()
        ],
    }


def _to_csv(benchmark: Benchmark) -> str:
    made = io.StringIO()
    writer = csv.writer(made)
    figures = [f"{figure.key} {figure.unit}" for figure in FIGURES]
    asked = ["point", "concurrency", "prompt tokens", "output tokens", "round"]
    writer.writerow([*asked, "requests", "failed", *figures, "not clean because"])
    for point in read_rows(benchmark.points.defer("requests")):
        for number, each in enumerate(point.rounds, start=1):
            values = [figure.read(each) for figure in FIGURES]
            writer.writerow(
                [
                    *(point.name, point.concurrency, point.prompt_tokens, point.output_tokens),
                    *(number, each.requests, each.failed),
                    *("" if value is None else f"{value:.6g}" for value in values),
                    "; ".join(say(code).text for code in point.taints),
                ]
            )
    return made.getvalue()


def _to_markdown(benchmark: Benchmark) -> str:
    on = benchmark.measured_on
    cards = ", ".join(str(card["name"]) for card in on.get("cards", []))
    told = [
        f"**{on.get('model') or benchmark.server_name}**",
        f"{on.get('engine', '')} {on.get('engine_version', '')}".strip(),
        f"`{on['image']}`" if on.get("image") else "",
        cards,
        f"driver {on['driver']}" if on.get("driver") else "",
    ]
    lines = [" · ".join(filter(None, told)), ""]
    heads = ["Point", *(f"{figure.title}, {figure.unit}" for figure in FIGURES), "Clean"]
    lines += ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * len(FIGURES) + "---|"]
    for point in read_rows(benchmark.points.defer("requests")):
        found = [point.estimate(figure) for figure in FIGURES]
        cells = [
            figure.format(each.mean).removesuffix(" s") if each else "–"
            for figure, each in zip(FIGURES, found, strict=True)
        ]
        clean = ", ".join(say(code).text for code in point.taints) or "yes"
        lines.append(f"| {' | '.join([point.label, *cells, clean])} |")
    return "\n".join(lines) + "\n"
