"""A model that somebody wants from the Hub on a box: what of it, where to, how far it is."""

import hashlib
import json
from datetime import timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils import timezone

from servers.models.box import Box
from servers.models.people.user import User

_STANDS = 1024  # bytes a second: with less nobody could say when it ends
# How long a page tells what came of one.
TOLD_FOR = timedelta(days=1)


class DownloadState(models.TextChoices):
    WAITING = "waiting"  # for its turn, or for the watcher
    CHECKING = "checking"  # the Hub, the licence, the room on the disk
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"  # all of it is there, and looked through
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class DesiredDownloadState(models.TextChoices):
    GO = "go"
    PAUSED = "paused"
    CANCELLED = "cancelled"


OVER = (DownloadState.DONE, DownloadState.FAILED, DownloadState.CANCELLED)
OPEN = tuple(state for state in DownloadState if state not in OVER)
AT_WORK = (DownloadState.CHECKING, DownloadState.DOWNLOADING, DownloadState.VERIFYING)


class DownloadQuerySet(models.QuerySet["Download"]):
    def open(self) -> "DownloadQuerySet":
        return self.filter(state__in=OPEN)

    def for_page(self) -> "DownloadQuerySet":
        """What goes on, oldest first, then what came of those of the last day."""
        recent = Q(state__in=OVER, ended_at__gt=timezone.now() - TOLD_FOR)
        found = self.filter(Q(state__in=OPEN) | recent).select_related("box", "asked_by")
        return found.annotate(is_past=Q(state__in=OVER)).order_by("is_past", "pk")


class Download(models.Model):
    """The web writes what is wanted, the box's watcher moves it forward."""

    State = DownloadState
    Wanted = DesiredDownloadState

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="downloads")
    repository = models.CharField(max_length=200)
    revision = models.CharField(max_length=200, default="main")  # as asked for
    commit = models.CharField(max_length=40, blank=True)  # what that was when it began
    # Names of files, with * in them; [":Q4_K_M"]: a quantization; []: what engines load.
    patterns: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    # A folder with models of the box; "": its Hugging Face cache.
    into = models.CharField(max_length=1000, blank=True)
    key = models.CharField(max_length=64)  # of what is asked for, see key_of()
    folder = models.CharField(max_length=1300, blank=True)  # of the box; "" until it is known
    # host.weights.fetch.places.File each, once the Hub was asked.
    files: "models.JSONField[list[dict[str, Any]], list[dict[str, Any]]]" = models.JSONField(
        default=list
    )
    # By name the size and time of files that were looked through.
    verified: "models.JSONField[dict[str, list[int]], dict[str, list[int]]]" = models.JSONField(
        default=dict
    )

    state = models.CharField(max_length=12, choices=DownloadState, default=DownloadState.WAITING)
    wanted = models.CharField(
        max_length=10, choices=DesiredDownloadState, default=DesiredDownloadState.GO
    )
    drops_parts = models.BooleanField(default=False)  # of a cancelled one
    limit = models.BigIntegerField(default=0)  # bytes a second; 0: none
    total = models.BigIntegerField(null=True)  # bytes; None until the Hub was asked
    done = models.BigIntegerField(default=0)
    looked = models.BigIntegerField(default=0)  # bytes that were looked through
    rate = models.FloatField(null=True)  # bytes a second, of the last seconds
    trouble = models.CharField(max_length=300, blank=True)  # it tries on
    said = models.TextField(blank=True)  # what came of it, in a sentence or two
    advice = models.TextField(blank=True)  # of a failed one

    asked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField(default=timezone.now)
    moved_at = models.DateTimeField(default=timezone.now)  # into its state
    ended_at = models.DateTimeField(null=True)

    objects = DownloadQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["box", "key"], condition=Q(state__in=OPEN), name="one_open_download_a_wish"
            )
        ]

    def __str__(self) -> str:
        return self.repository

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def is_at_work(self) -> bool:
        return self.state in AT_WORK

    @property
    def percent(self) -> int | None:
        """Whole percent that are there; of one that is looked through, that was looked at."""
        if not self.total:
            return None
        part = self.looked if self.state == DownloadState.VERIFYING else self.done
        return min(100, part * 100 // self.total)

    @property
    def left(self) -> float | None:
        """Seconds, at the pace of now; None where nobody can tell."""
        if (
            self.state != DownloadState.DOWNLOADING
            or (self.rate or 0) < _STANDS
            or self.total is None
        ):
            return None
        return max(0.0, (self.total - self.done) / (self.rate or _STANDS))

    @property
    def mark(self) -> str:
        """Another text whenever what people are shown is another."""
        return f"{self.state} {self.wanted} {self.percent} {self.trouble} {self.limit}"

    def move(self, to: str, **values: Any) -> bool:
        """Into a state; False where somebody was faster."""
        now = timezone.now()
        values |= {"state": to, "moved_at": now}
        if to in OVER:
            values["ended_at"] = now
        mine = Download.objects.filter(pk=self.pk, state=self.state)
        if not mine.update(**values):
            return False
        for name, value in values.items():
            setattr(self, name, value)
        return True


def key_of(repository: str, revision: str, patterns: list[str], into: str) -> str:
    """The same for the same wish."""
    asked = json.dumps([repository.casefold(), revision, sorted(patterns), into])
    return hashlib.sha256(asked.encode()).hexdigest()
