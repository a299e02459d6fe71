"""The history of GPUs and engines (packed points, fine for an hour, coarse for a month), and what else a box has for starts."""

from typing import Any

from django.conf import settings
from django.db import models

from servers.models.box import Box, BoxObservation, BoxObservationManager, ObservationKind
from servers.models.json_values import JsonValue


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

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["box", "step", "start"], name="one_history_chunk")
        ]


class FiguresChunk(Chunk):
    """By the server's slug: what its engine told, as judge.runs.metrics packs it."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="figures")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["box", "step", "start"], name="one_figures_chunk")
        ]


class HostResources(BoxObservation):
    KIND = ObservationKind.HOST

    # {"architecture", "runtimes", "toolkit", "disks": {"images", "cache", "shm": {"path",
    # "free", "total", "device"}}, "listening": ports, "addresses": of IPv4}; a key is missing where nobody could tell.
    found = JsonValue[dict[str, Any]]("data", {})
    # Reference -> {"id", "architecture", "size", "require"}; None for one that is not there.
    images = JsonValue[dict[str, Any]]("data", {})

    objects = BoxObservationManager()  # type: ignore[misc]

    class Meta:
        proxy = True
