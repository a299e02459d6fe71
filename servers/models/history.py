"""What a box's GPUs did: packed points, fine ones for an hour, coarse ones for a month."""

from collections.abc import Iterable

from django.conf import settings
from django.db import models

from servers.judge import history
from servers.judge.history import SPANS, Point, Series, Times
from servers.models.box import Box


class HistoryChunkQuerySet(models.QuerySet["HistoryChunk"]):
    def between(self, box: Box, step: int, since: int, until: int) -> "HistoryChunkQuerySet":
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

    def gpus(self, box: Box) -> list[str]:
        """The GPUs that the newest chunk has points of."""
        newest = self.filter(box=box, step=max(SPANS)).order_by("-start").first()
        return list(newest.series) if newest else []

    def points(
        self, box: Box, step: int, width: int, since: int, until: int, *, gpu: str = ""
    ) -> Times:
        """Points of `width` seconds, of one GPU or of all of them together."""
        groups: dict[int, dict[str, list[Point]]] = {}
        for body in self.between(box, step, since, until).values_list("body", flat=True):
            for each, times in history.unpack(bytes(body), gpu).items():
                for t, point in times.items():
                    if since <= t < until:
                        slot = groups.setdefault(history.slot(t, width), {})
                        slot.setdefault(each, []).append(point)
        return {t: _one(of_gpus.values()) for t, of_gpus in groups.items()}


def _one(of_gpus: Iterable[list[Point]]) -> Point:
    each = [points[0] if len(points) == 1 else history.rolled(points) for points in of_gpus]
    return each[0] if len(each) == 1 else history.together(each)


class HistoryChunk(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="history")
    step = models.PositiveSmallIntegerField()  # seconds that a point stands for
    start = models.BigIntegerField()  # unix second of the first point that may be in it
    body = models.BinaryField()  # judge.history.pack()

    objects = HistoryChunkQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["box", "step", "start"], name="one_history_chunk")
        ]

    def __str__(self) -> str:
        return f"{self.box_id}: {self.start}, {self.step} s"

    @property
    def series(self) -> Series:
        return history.unpack(bytes(self.body))

    @staticmethod
    def kept() -> dict[int, float]:
        """For how many seconds points of each step are kept, by the settings."""
        days = settings.HISTORY_DAYS * 86400.0
        return {
            1: settings.HISTORY_SECONDS_HOURS * 3600.0,
            10: settings.HISTORY_TENS_DAYS * 86400.0,
            60: days,
            600: days,
        }
