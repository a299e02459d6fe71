"""The history of GPUs and engines: packed points, fine for an hour, coarse for a month."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import models

from servers.judge.memory import history
from servers.judge.memory.history import SPANS, Point, Series, Times
from servers.models.box import Box


class ChunkQuerySet(models.QuerySet[Any]):
    """Of a table of chunks."""

    def span(self, box: Box, step: int, since: int, until: int) -> "ChunkQuerySet":
        """The chunks of one step that hold points of this range, in their order."""
        first = history.slot(since, SPANS[step])
        return self.filter(box=box, step=step, start__gte=first, start__lt=until).order_by("start")

    def reach(self, box: Box) -> dict[int, int]:
        """From when on there are chunks of each step, by unix seconds."""
        steps = self.filter(box=box).order_by().values("step")
        oldest = steps.annotate(oldest=models.Min("start"))
        return dict(oldest.values_list("step", "oldest"))

    def oldest(self, box: Box) -> int | None:
        """The moment of the oldest point; None where nothing was recorded."""
        chunks = self.filter(box=box, step=max(SPANS)).order_by("start")[:1]
        moments = [t for chunk in chunks for times in chunk.series.values() for t in times]
        return min(moments, default=None)

    def newest(self, box: Box) -> int | None:
        """The moment of the newest point; None where nothing was recorded."""
        chunks = self.filter(box=box, step=max(SPANS)).order_by("-start")[:1]
        moments = [t for chunk in chunks for times in chunk.series.values() for t in times]
        return max(moments, default=None)

    def list_keys(self, box: Box) -> list[str]:
        """What the newest chunk has points of."""
        newest = self.filter(box=box, step=max(SPANS)).order_by("-start").first()
        return list(newest.series) if newest else []

    def by_key(
        self, box: Box, step: int, width: int, since: int, until: int, *, key: str = ""
    ) -> dict[str, Times]:
        """Points of `width` seconds, by what they are of; with a `key`, of that alone."""
        groups: dict[str, dict[int, list[Point]]] = {}
        for body in self.span(box, step, since, until).values_list("body", flat=True):
            for each, times in history.unpack(bytes(body), key).items():
                for t, point in times.items():
                    if since <= t < until:
                        slots = groups.setdefault(each, {})
                        slots.setdefault(history.slot(t, width), []).append(point)
        return {
            each: {t: _roll_up(points) for t, points in slots.items()}
            for each, slots in groups.items()
        }


class HistoryChunkQuerySet(ChunkQuerySet):
    def gpus(self, box: Box) -> list[str]:
        """The GPUs that the newest chunk has points of."""
        return self.list_keys(box)

    def points(
        self, box: Box, step: int, width: int, since: int, until: int, *, gpu: str = ""
    ) -> Times:
        """Points of `width` seconds, of one GPU or of all of them together."""
        groups: dict[int, list[Point]] = {}
        for times in self.by_key(box, step, width, since, until, key=gpu).values():
            for t, point in times.items():
                groups.setdefault(t, []).append(point)
        return {t: _together(of_gpus) for t, of_gpus in groups.items()}


def _roll_up(points: list[Point]) -> Point:
    return points[0] if len(points) == 1 else history.roll_up(points)


def _together(of_gpus: Iterable[Point]) -> Point:
    each = list(of_gpus)
    return each[0] if len(each) == 1 else history.together(each)


class Chunk(models.Model):
    """Points of a span of time, of all that the table tells of on a box."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="+")
    step = models.PositiveSmallIntegerField()  # seconds that a point stands for
    start = models.BigIntegerField()  # unix second of the first point that may be in it
    body = models.BinaryField()  # judge.memory.history.pack()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.box_id}: {self.start}, {self.step} s"

    @property
    def series(self) -> Series:
        return history.unpack(bytes(self.body))

    @staticmethod
    def get_retention() -> dict[int, float]:
        """For how many seconds points of each step are kept, by the settings."""
        days = settings.HISTORY_DAYS * 86400.0
        return {
            1: settings.HISTORY_SECONDS_HOURS * 3600.0,
            10: settings.HISTORY_TENS_DAYS * 86400.0,
            60: days,
            600: days,
        }


class HistoryChunk(Chunk):
    """By GPU."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="history")

    objects = HistoryChunkQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["box", "step", "start"], name="one_history_chunk")
        ]


class FiguresChunk(Chunk):
    """By the server's slug: what its engine told, as judge.runs.metrics packs it."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="figures")

    objects = ChunkQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["box", "step", "start"], name="one_figures_chunk")
        ]
