"""History of a box's GPUs, and who held their memory."""

import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import Q
from django.http import Http404, HttpResponse, JsonResponse, StreamingHttpResponse
from django.shortcuts import aget_object_or_404, get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_GET

from servers.contexts import pages
from servers.contexts.memory import history as chunks
from servers.judge.memory import history as judge
from servers.judge.memory.history import Point, Times
from servers.launch import durations
from servers.lifecycle.runs import starts
from servers.models import Alert, Box, FiguresChunk, HistoryChunk, Permission, Run
from servers.state import box_samples
from servers.views import spreadsheet
from servers.views.access import PersonRequest, allow
from servers.views.runs import metrics

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


@require_GET
@allow(Permission.VIEW)
def history(request: PersonRequest, slug: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    gpus = _gpus(box)
    tables = (HistoryChunk, FiguresChunk)
    oldest = [moment for each in tables if (moment := chunks.find_oldest(each, box))]
    newest = [moment for each in tables if (moment := chunks.find_newest(each, box))]
    told = {"box": box, "panel": pages.panel(box), "tab": "history", "charts": CHARTS}
    told |= {"gpus": gpus, "spans": SPANS, "engines": metrics.servers_of(box)}
    told |= {"oldest": min(oldest, default=0), "newest": max(newest, default=0)}
    return render(request, "memory/history.html", told)


def _gpus(box: Box) -> list[tuple[str, str]]:
    """What a person may choose from: the name in points, and a title."""
    titles = {
        str(each.get("uuid")): f"GPU {each['index']} {shorten(each.get('name') or '')}".strip()
        for each in box.gpus or []
    }
    recorded = chunks.list_keys(HistoryChunk, box)
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


@require_GET
@allow(Permission.VIEW)
def history_points(request: PersonRequest, slug: str) -> JsonResponse:
    """At most 1000 points of a range: ?from= and ?to= in unix seconds, ?gpu= a UUID or all,
    ?server= whose engine, or all."""
    box = get_object_or_404(Box, slug=slug)
    now = time.time()
    since, until = _range(request, now)
    step, width = _plan(box, since, until, MOST_POINTS)
    begins = judge.slot(since, width)
    gpu = request.GET.get("gpu", "")
    points = chunks.read_gpu_points(box, step, width, begins, until, gpu=gpu)
    points = {**_recent(box, gpu, begins, until, width), **points}
    found = {
        "from": since,
        "to": until,
        "now": now,
        "width": width,
        "first": chunks.find_oldest(HistoryChunk, box),
        "runs": _runs(box, since, until),
        "alerts": _alerts(box, since, until),
        "reboots": _reboots(box, since, until),
        "engines": metrics.of_box(box, since, until, MOST_POINTS, request.GET.get("server", "")),
        **judge.columns(points, begins, until, width),
    }
    return JsonResponse(found, headers={"Cache-Control": "no-store"})


def _recent(box: Box, gpu: str, since: int, until: int, width: int) -> Times:
    """The end of the range, where its points are not stored yet: that is done once a minute."""
    body = box_samples.read_recent(box.slug)
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


def _plan(box: Box, since: int, until: int, most: int) -> tuple[int, int]:
    reach, first = chunks.find_reach(HistoryChunk, box), chunks.find_oldest(HistoryChunk, box)
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
            "start": durations.to_timestamp(run.started_at or run.created_at),
            "ready": durations.to_timestamp(run.ready_at),
            "end": durations.to_timestamp(run.ended_at),
            "phases": [
                {"words": each.words, "at": durations.to_timestamp(each.began)}
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
            "start": durations.to_timestamp(alert.raised_at),
            "end": durations.to_timestamp(alert.cleared_at),
        }
        for alert in alerts.filter(raised_at__lte=began).order_by("-raised_at")[:MOST_ALERTS]
    ]


def _reboots(box: Box, since: int, until: int) -> list[dict[str, Any]]:
    within = (datetime.fromtimestamp(since, UTC), datetime.fromtimestamp(until, UTC))
    return [
        {
            "at": durations.to_timestamp(each.booted_at),
            "words": f"{box.slug} restarts",
            "url": reverse("box", args=[box.slug]),
        }
        for each in box.reboots.filter(booted_at__range=within).order_by("booted_at")
    ]


@require_GET
@allow(Permission.VIEW)
async def history_csv(request: PersonRequest, slug: str) -> StreamingHttpResponse:
    """Every point of a range as finely as it is kept, a line a GPU and moment; ?of=servers: what
    engines told, a line a server and moment."""
    box = await aget_object_or_404(Box, slug=slug)
    since, until = _range(request, time.time())
    is_of_servers = request.GET.get("of") == "servers"
    plan = metrics.plan if is_of_servers else _plan
    step, _width = await sync_to_async(plan)(box, since, until, 2**31)
    kind = "servers-" if is_of_servers else ""
    name = f"{slug}-{kind}{datetime.fromtimestamp(since, UTC):%Y%m%d-%H%M}-{step}s.csv"
    lines = (
        _figure_lines(box, step, since, until, request.GET.get("server", ""))
        if is_of_servers
        else _lines(box, step, since, until, request.GET.get("gpu", ""))
    )
    return spreadsheet.answer(name, lines)


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


async def _lines(box: Box, step: int, since: int, until: int, gpu: str) -> AsyncIterator[str]:
    """Twice through the chunks: the names of all columns come first, and all would not fit."""
    found = chunks.list_chunks(HistoryChunk, box, step, since, until)
    parts: set[str] = set()
    async for body in found.values_list("body", flat=True).aiterator(chunk_size=8):
        parts |= await sync_to_async(_part_names)(bytes(body), gpu)
    order = sorted(parts)
    titles = [f"{_inert(name.removeprefix('='))} MiB" for name in order]
    yield spreadsheet.line(["time", "gpu", *(title for _key, title, _by in _FIGURES), *titles])
    columns = [(key, by) for key, _title, by in _FIGURES] + [(name, 1024) for name in order]
    async for body in found.values_list("body", flat=True).aiterator(chunk_size=8):
        rows = await sync_to_async(_rows)(bytes(body), gpu, since, until, columns)
        yield "".join(spreadsheet.line(row) for row in rows)


async def _figure_lines(
    box: Box, step: int, since: int, until: int, server: str
) -> AsyncIterator[str]:
    yield spreadsheet.line(["time", "server", *metrics.titles()])
    found = chunks.list_chunks(FiguresChunk, box, step, since, until)
    async for body in found.values_list("body", flat=True).aiterator(chunk_size=8):
        rows = await sync_to_async(metrics.rows)(bytes(body), server, since, until)
        yield "".join(spreadsheet.line(row) for row in rows)


def _part_names(body: bytes, gpu: str) -> set[str]:
    series = judge.unpack(body, gpu)
    points = (point for times in series.values() for point in times.values())
    return {name for point in points for name in point if name.startswith("=")}


def _rows(
    body: bytes, gpu: str, since: int, until: int, columns: list[tuple[str, int]]
) -> list[list[str]]:
    return [
        [datetime.fromtimestamp(t, UTC).isoformat(), name, *_cells(point, columns)]
        for name, times in judge.unpack(body, gpu).items()
        for t, point in sorted(times.items())
        if since <= t < until
    ]


def _cells(point: Point, columns: list[tuple[str, int]]) -> Iterator[str]:
    for key, by in columns:
        value = point.get(key)
        yield "" if value is None else f"{value / by:g}" if by < 100 else f"{value / by:.1f}"


def _inert(name: str) -> str:
    """A spreadsheet runs a cell that begins like a formula; a program may be called anything."""
    return name if name[:1].isalnum() else f"'{name}"
