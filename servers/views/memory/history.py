"""History of a box: its GPUs, who held their memory, and what its engines told of their work."""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.db.models import Q, QuerySet
from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import aget_object_or_404, get_object_or_404, render
from django.urls import reverse

from servers.contexts import pages
from servers.contexts.memory import (
    ChunkTable,
    find_newest,
    find_oldest,
    find_reach,
    list_chunks,
    list_keys,
    read_gpu_points,
    read_points,
)
from servers.judge.memory import history as judge
from servers.judge.memory.history import Point, Times
from servers.judge.runs import metrics
from servers.judge.runs.metrics import FINEST, SCALES
from servers.launch import numbers
from servers.lifecycle.runs import starts
from servers.models import Alert, Box, FiguresChunk, HistoryChunk, Permission, Run, Server
from servers.models.memory import Chunk
from servers.state import samples
from servers.views import responses
from servers.views.access import PersonRequest, get

type Cells = Callable[[Point], Iterator[str]]  # of a line, behind its time and name

MOST_POINTS = 1000
MOST_RUNS = 200
MOST_ALERTS = 200
DAY = 86400.0
# Of engines, in the order of the page.
CHARTS = ("requests", "tokens", "prompts", "first", "inter", "kv", "prefix")
# What the names of GPUs have in common, and nobody needs to tell them apart.
_EDITIONS = ("NVIDIA ", " Blackwell", " Server Edition", " Workstation Edition", " Generation")
# What a range is chosen by: seconds and words.
SPANS = (
    (3600, "1 h"),
    (6 * 3600, "6 h"),
    (86400, "24 h"),
    (7 * 86400, "7 d"),
    (30 * 86400, "30 d"),
)


@get("boxes/<slug:slug>/history/", Permission.VIEW)
def history(request: PersonRequest, slug: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    gpus = _gpus(box)
    tables = (HistoryChunk, FiguresChunk)
    oldest = [moment for each in tables if (moment := find_oldest(each, box))]
    newest = [moment for each in tables if (moment := find_newest(each, box))]
    told = {"box": box, "panel": pages.panel(box), "tab": "history", "charts": CHARTS}
    told |= {"gpus": gpus, "spans": SPANS, "engines": _list_engines(box)}
    told |= {"oldest": min(oldest, default=0), "newest": max(newest, default=0)}
    return render(request, "memory/history.html", told)


def _gpus(box: Box) -> list[tuple[str, str]]:
    """What a person may choose from: the name in points, and a title."""
    titles = {
        str(each.get("uuid")): f"GPU {each['index']} {shorten(each.get('name') or '')}".strip()
        for each in box.gpus or []
    }
    recorded = list_keys(HistoryChunk, box)
    here = sorted((key for key in recorded if key in titles), key=lambda key: titles[key])
    gone = sorted(key for key in recorded if key not in titles)
    return [
        *((key, titles[key]) for key in here),
        *((key, f"Removed GPU {number}") for number, key in enumerate(gone, start=1)),
    ]


def shorten(name: str) -> str:
    """ "RTX PRO 6000" of "NVIDIA RTX PRO 6000 Blackwell Server Edition"."""
    for words in _EDITIONS:
        name = name.replace(words, "")
    return name


@get("boxes/<slug:slug>/history/points.json", Permission.VIEW)
def history_points(request: PersonRequest, slug: str) -> JsonResponse:
    """At most 1000 points of a range: ?from= and ?to= in unix seconds, ?gpu= a UUID or all,
    ?server= whose engine, or all."""
    box = get_object_or_404(Box, slug=slug)
    now = time.time()
    since, until = _range(request, now)
    step, width = _plan(HistoryChunk, box, since, until, MOST_POINTS)
    begins = judge.slot(since, width)
    gpu = request.GET.get("gpu", "")
    points = read_gpu_points(box, step, width, begins, until, gpu=gpu)
    points = {**_recent(box, gpu, begins, until, width), **points}
    found = {
        "from": since,
        "to": until,
        "now": now,
        "width": width,
        "first": find_oldest(HistoryChunk, box),
        "runs": _runs(box, since, until),
        "alerts": _alerts(box, since, until),
        "reboots": _reboots(box, since, until),
        "engines": read_engine_points(
            box, since, until, MOST_POINTS, request.GET.get("server", "")
        ),
        **judge.columns(points, begins, until, width),
    }
    return JsonResponse(found, headers={"Cache-Control": "no-store"})


def _recent(box: Box, gpu: str, since: int, until: int, width: int) -> Times:
    """The end of the range, where its points are not stored yet: that is done once a minute."""
    body = samples.read_recent(box.slug)
    if body is None or until < time.time() - 2 * judge.SPANS[1]:
        return {}
    return judge.together_by(judge.unpack(body, gpu), since, until, width)


def _range(request: PersonRequest, now: float) -> tuple[int, int]:
    try:
        until = float(request.GET.get("to") or now)
        since = float(request.GET.get("from") or until - DAY)
        ends = int(since), int(until)
    except (ValueError, OverflowError) as error:
        raise Http404("from and to are unix seconds") from error
    if not 0 <= ends[0] < ends[1] < 2**40:
        raise Http404("from must lie before to")
    return ends


def _plan(table: ChunkTable, box: Box, since: int, until: int, most: int) -> tuple[int, int]:
    unknown = {FINEST: since} if table is FiguresChunk else {}
    reach, first = find_reach(table, box) or unknown, find_oldest(table, box)
    return judge.plan(since, until, reach=reach, first=first or until, most=most)


def _runs(box: Box, since: int, until: int) -> list[dict[str, Any]]:
    began, ended = datetime.fromtimestamp(until, UTC), datetime.fromtimestamp(since, UTC)
    runs = (
        Run.objects.filter(Q(ended_at=None) | Q(ended_at__gte=ended), server__box=box)
        .filter(created_at__lte=began)
        .select_related("server")
        .order_by("-created_at")[:MOST_RUNS]
    )
    return [
        {
            "server": run.server.slug,
            "url": reverse("run", args=[run.pk]),
            "state": run.state,
            "start": numbers.to_timestamp(run.started_at or run.created_at),
            "ready": numbers.to_timestamp(run.ready_at),
            "end": numbers.to_timestamp(run.ended_at),
            "phases": [
                {"words": each.words, "at": numbers.to_timestamp(each.began)}
                for each in starts.list_stretches(run)
            ],
        }
        for run in runs
    ]


def _alerts(box: Box, since: int, until: int) -> list[dict[str, Any]]:
    began, ended = datetime.fromtimestamp(until, UTC), datetime.fromtimestamp(since, UTC)
    alerts = Alert.objects.filter(Q(cleared_at=None) | Q(cleared_at__gte=ended), box=box)
    return [
        {
            "title": alert.title,
            "severity": alert.severity,
            "url": reverse("run", args=[alert.run_id]) if alert.run_id else reverse("alerts"),
            "start": numbers.to_timestamp(alert.raised_at),
            "end": numbers.to_timestamp(alert.cleared_at),
        }
        for alert in alerts.filter(raised_at__lte=began).order_by("-raised_at")[:MOST_ALERTS]
    ]


def _reboots(box: Box, since: int, until: int) -> list[dict[str, Any]]:
    within = (datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC))
    return [
        {
            "at": numbers.to_timestamp(each.booted_at),
            "words": f"{box.slug} restarts",
            "url": reverse("box", args=[box.slug]),
        }
        for each in box.reboots.filter(booted_at__range=within).order_by("booted_at")
    ]


@get("boxes/<slug:slug>/history/points.csv", Permission.VIEW)
async def history_csv(request: PersonRequest, slug: str) -> StreamingHttpResponse:
    """Every point of a range as finely as it is kept, a line a GPU and moment; ?of=servers: what
    engines told, a line a server and moment."""
    box = await aget_object_or_404(Box, slug=slug)
    since, until = _range(request, time.time())
    is_of_servers = request.GET.get("of") == "servers"
    table: ChunkTable = FiguresChunk if is_of_servers else HistoryChunk
    step, _width = await sync_to_async(_plan)(table, box, since, until, 2**31)
    kind = "servers-" if is_of_servers else ""
    name = f"{slug}-{kind}{datetime.fromtimestamp(since, UTC):%Y%m%d-%H%M}-{step}s.csv"
    found = list_chunks(table, box, step, since, until)
    if is_of_servers:
        head, key = ["time", "server", *_list_titles()], request.GET.get("server", "")
        lines = _lines(found, key, since, until, head, _list_engine_cells)
    else:
        lines = _gpu_lines(found, request.GET.get("gpu", ""), since, until)
    return responses.send_csv(name, lines)


# Column of a point, its name in the file, and what to divide by.
_FIGURES = (
    ("util", "utilisation %", 1),
    ("util_max", "greatest utilisation %", 1),
    ("power", "power W", 10),
    ("power_max", "greatest power W", 10),
    ("temperature", "temperature C", 1),
    ("temperature_max", "greatest temperature C", 1),
    ("used", "used MiB", 1024),
    ("used_max", "greatest used MiB", 1024),
)


async def _gpu_lines(
    found: "QuerySet[Chunk, Any]", gpu: str, since: int, until: int
) -> AsyncIterator[str]:
    """Twice through the chunks: the names of all columns come first, and all would not fit."""
    parts: set[str] = set()
    async for body in found.values_list("body", flat=True).aiterator(chunk_size=8):
        parts |= await sync_to_async(_part_names)(bytes(body), gpu)
    order = sorted(parts)
    titles = [f"{_inert(name.removeprefix('='))} MiB" for name in order]
    head = ["time", "gpu", *(title for _key, title, _by in _FIGURES), *titles]
    columns = [(key, by) for key, _title, by in _FIGURES] + [(name, 1024) for name in order]
    cells = partial(_list_gpu_cells, columns)
    async for line in _lines(found, gpu, since, until, head, cells):
        yield line


async def _lines(
    found: "QuerySet[Chunk, Any]", key: str, since: int, until: int, head: list[str], cells: Cells
) -> AsyncIterator[str]:
    yield responses.format_csv_line(head)
    async for body in found.values_list("body", flat=True).aiterator(chunk_size=8):
        rows = await sync_to_async(_rows)(bytes(body), key, since, until, cells)
        yield "".join(responses.format_csv_line(row) for row in rows)


def _part_names(body: bytes, gpu: str) -> set[str]:
    series = judge.unpack(body, gpu)
    points = (point for times in series.values() for point in times.values())
    return {name for point in points for name in point if name.startswith("=")}


def _rows(body: bytes, key: str, since: int, until: int, cells: Cells) -> list[list[str]]:
    return [
        [datetime.fromtimestamp(t, UTC).isoformat(), name, *cells(point)]
        for name, times in judge.unpack(body, key).items()
        for t, point in sorted(times.items())
        if since <= t < until
    ]


def _list_gpu_cells(columns: list[tuple[str, int]], point: Point) -> Iterator[str]:
    for key, by in columns:
        value = point.get(key)
        yield "" if value is None else f"{value / by:g}" if by < 100 else f"{value / by:.1f}"


def _inert(name: str) -> str:
    """A spreadsheet runs a cell that begins like a formula; a program may be called anything."""
    return name if name[:1].isalnum() else f"'{name}"


LATELY = 900  # seconds that a server's own page shows

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
    found = _read_engine_times(server.box, FINEST, FINEST, since, until, slug)
    told = _build_columns(found.get(slug, {}), since, until, FINEST)
    return JsonResponse(told, headers={"Cache-Control": "no-store"})


def read_engine_points(box: Box, since: int, until: int, most: int, server: str) -> dict[str, Any]:
    """By server, in at most `most` points of a range: {"t", "width", "servers"}."""
    step, width = _plan(FiguresChunk, box, since, until, most)
    begins = judge.slot(since, width)
    found = _read_engine_times(box, step, width, begins, until, server)
    each = {
        slug: _build_columns(times, begins, until, width) for slug, times in sorted(found.items())
    }
    return {
        "t": list(range(begins, until, width)),
        "width": width,
        "servers": {slug: told["columns"] for slug, told in each.items()},
    }


def _list_engines(box: Box) -> list[str]:
    """Whose engines the newest points tell of."""
    body = samples.read_recent(box.slug, of="figures")
    recent = judge.unpack(body) if body else {}
    return sorted({*list_keys(FiguresChunk, box), *recent})


def _build_columns(times: Times, since: int, until: int, width: int) -> dict[str, Any]:
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


def _read_engine_times(
    box: Box, step: int, width: int, since: int, until: int, server: str
) -> dict[str, Times]:
    found = read_points(FiguresChunk, box, step, width, since, until, key=server)
    # What is not stored yet: that is done once a minute.
    body = samples.read_recent(box.slug, of="figures")
    if body is not None and until >= time.time() - 2 * judge.SPANS[1]:
        for slug, times in judge.unpack(body, server).items():
            within = {t: point for t, point in times.items() if since <= t < until}
            found[slug] = {**judge.rolled_up(within, width), **found.get(slug, {})}
    return found


def _list_titles() -> list[str]:
    """Of a table's columns, after the time and the server."""
    return [said for title, _by in TITLES.values() for said in (title, f"greatest {title}")]


def _list_engine_cells(point: Point) -> Iterator[str]:
    for name, (_title, by) in TITLES.items():
        for column in (name, f"{name}_max"):
            kept = point.get(column)
            yield "" if kept is None else f"{metrics.make_figure(column, kept) * by:g}"
