"""Points of the history of GPUs and engines, read from their packed chunks."""

from collections.abc import Callable
from typing import Any

from django.db.models import Min, QuerySet

from servers.judge.memory import history
from servers.judge.memory.history import SPANS, Point, Times
from servers.models import Box, HistoryChunk
from servers.models.memory import Chunk

type ChunkTable = type[Chunk]


def list_chunks(
    table: ChunkTable, box: Box, step: int, since: int, until: int
) -> "QuerySet[Chunk, Any]":
    """The chunks of one step that hold points of this range, in their order."""
    first = history.slot(since, SPANS[step])
    found = table._default_manager.filter(box=box, step=step, start__gte=first, start__lt=until)
    return found.order_by("start")


def find_reach(table: ChunkTable, box: Box) -> dict[int, int]:
    """From when on there are chunks of each step, by unix seconds."""
    steps = table._default_manager.filter(box=box).order_by().values("step")
    return dict(steps.annotate(oldest=Min("start")).values_list("step", "oldest"))


def find_oldest(table: ChunkTable, box: Box) -> int | None:
    """The moment of the oldest point; None where nothing was recorded."""
    return min(_list_moments(table, box, "start"), default=None)


def find_newest(table: ChunkTable, box: Box) -> int | None:
    """The moment of the newest point; None where nothing was recorded."""
    return max(_list_moments(table, box, "-start"), default=None)


def list_keys(table: ChunkTable, box: Box) -> list[str]:
    """What the newest chunk has points of."""
    return list(_read_coarse(table, box, "-start"))


def _list_moments(table: ChunkTable, box: Box, order: str) -> list[int]:
    return [t for times in _read_coarse(table, box, order).values() for t in times]


def _read_coarse(table: ChunkTable, box: Box, order: str) -> history.Series:
    """The first chunk of the widest points in this order; {} where there is none."""
    chunks = table._default_manager.filter(box=box, step=max(SPANS)).order_by(order)
    first = chunks.first()
    return history.unpack(bytes(first.body)) if first else {}


def read_points(
    table: ChunkTable, box: Box, step: int, width: int, since: int, until: int, *, key: str = ""
) -> dict[str, Times]:
    """Points of `width` seconds, by what they are of; with a `key`, of that alone."""
    groups: dict[str, dict[int, list[Point]]] = {}
    for body in list_chunks(table, box, step, since, until).values_list("body", flat=True):
        for each, times in history.unpack(bytes(body), key).items():
            for t, point in times.items():
                if since <= t < until:
                    slots = groups.setdefault(each, {})
                    slots.setdefault(history.slot(t, width), []).append(point)
    return {
        each: {t: _join(points, history.roll_up) for t, points in slots.items()}
        for each, slots in groups.items()
    }


def read_gpu_points(
    box: Box, step: int, width: int, since: int, until: int, *, gpu: str = ""
) -> Times:
    """Points of `width` seconds, of one GPU or of all of them together."""
    groups: dict[int, list[Point]] = {}
    for times in read_points(HistoryChunk, box, step, width, since, until, key=gpu).values():
        for t, point in times.items():
            groups.setdefault(t, []).append(point)
    return {t: _join(of_gpus, history.together) for t, of_gpus in groups.items()}


def _join(points: list[Point], join: Callable[[list[Point]], Point]) -> Point:
    return points[0] if len(points) == 1 else join(points)
