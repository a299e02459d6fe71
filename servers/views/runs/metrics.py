"""Metrics of engines over time: a server's charts, a box's history and its CSV."""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

from django.http import JsonResponse
from django.shortcuts import get_object_or_404

from servers.contexts.memory import history as chunks
from servers.judge.memory import history as judge
from servers.judge.memory.history import Times
from servers.judge.runs import metrics
from servers.judge.runs.metrics import FINEST, SCALES
from servers.models import Box, FiguresChunk, Permission, Server
from servers.state import box_samples
from servers.views.access import PersonRequest, get

LATELY = 900  # seconds that a server's own page shows

type Columns = Mapping[str, list[float | None]]

# What a figure is called in a table, and what its value is multiplied by there.
TITLES: Mapping[str, tuple[str, int]] = {
    "running": ("requests running", 1),
    "queued": ("requests queued", 1),
    "generation": ("generated tokens/s", 1),
    "prompt": ("prompt tokens/s", 1),
    "first_p50": ("first token p50 ms", 1000),
    "first_p95": ("first token p95 ms", 1000),
    "token_p50": ("between tokens p50 ms", 1000),
    "token_p95": ("between tokens p95 ms", 1000),
    "whole_p50": ("whole answer p50 ms", 1000),
    "whole_p95": ("whole answer p95 ms", 1000),
    "kv": ("KV cache %", 100),
    "prefix": ("prefix cache hits %", 100),
    "accepted": ("accepted drafts %", 100),
    "preemptions": ("preemptions/min", 1),
}


@get("servers/<slug:slug>/figures.json", Permission.VIEW)
def server_figures(request: PersonRequest, slug: str) -> JsonResponse:
    """The last quarter of an hour of one server, a point every ten seconds."""
    server = get_object_or_404(Server.objects.select_related("box"), slug=slug)
    until = int(time.time())
    since = judge.slot(until - LATELY, FINEST)
    found = _times(server.box, FINEST, FINEST, since, until, slug)
    told = columns(found.get(slug, {}), since, until, FINEST)
    return JsonResponse(told, headers={"Cache-Control": "no-store"})


def of_box(box: Box, since: int, until: int, most: int, server: str = "") -> dict[str, Any]:
    """By server, in at most `most` points of a range: {"t", "width", "servers"}."""
    step, width = plan(box, since, until, most)
    begins = judge.slot(since, width)
    found = _times(box, step, width, begins, until, server)
    each = {slug: columns(times, begins, until, width) for slug, times in sorted(found.items())}
    return {
        "t": list(range(begins, until, width)),
        "width": width,
        "servers": {slug: told["columns"] for slug, told in each.items()},
    }


def plan(box: Box, since: int, until: int, most: int) -> tuple[int, int]:
    reach = chunks.find_reach(FiguresChunk, box) or {FINEST: since}
    first = chunks.find_oldest(FiguresChunk, box) or until
    return judge.plan(since, until, reach=reach, first=first, most=most)


def servers_of(box: Box) -> list[str]:
    """Whose engines the newest points tell of."""
    body = box_samples.read_recent(box.slug, of="figures")
    recent = judge.unpack(body) if body else {}
    return sorted({*chunks.list_keys(FiguresChunk, box), *recent})


def columns(times: Times, since: int, until: int, width: int) -> dict[str, Any]:
    """The points as charts want them, in the units of judge.runs.metrics."""
    packed = judge.columns(times, since, until, width)
    told = cast(Mapping[str, list[int | None]], packed["columns"])
    return {
        "t": packed["t"],
        "columns": {
            name: [None if each is None else metrics.make_figure(name, each) for each in values]
            for name, values in told.items()
            if name.removesuffix("_max") in SCALES
        },
    }


def _times(
    box: Box, step: int, width: int, since: int, until: int, server: str
) -> dict[str, Times]:
    found = chunks.read_points(FiguresChunk, box, step, width, since, until, key=server)
    # What is not stored yet: that is done once a minute.
    body = box_samples.read_recent(box.slug, of="figures")
    if body is not None and until >= time.time() - 2 * judge.SPANS[1]:
        for slug, times in judge.unpack(body, server).items():
            within = {t: point for t, point in times.items() if since <= t < until}
            found[slug] = {**judge.rolled_up(within, width), **found.get(slug, {})}
    return found


def titles() -> list[str]:
    """Of a table's columns, after the time and the server."""
    return [said for title, _by in TITLES.values() for said in (title, f"greatest {title}")]


def rows(body: bytes, server: str, since: int, until: int) -> list[list[str]]:
    """A chunk as rows of that table."""
    return [
        [datetime.fromtimestamp(t, UTC).isoformat(), slug, *_cells(point)]
        for slug, times in judge.unpack(body, server).items()
        for t, point in sorted(times.items())
        if since <= t < until
    ]


def _cells(point: judge.Point) -> Iterator[str]:
    for name, (_title, by) in TITLES.items():
        for column in (name, f"{name}_max"):
            kept = point.get(column)
            yield "" if kept is None else f"{metrics.make_figure(column, kept) * by:g}"
