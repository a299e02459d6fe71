"""Captures, and the calls that they kept."""

import json
from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.text import Truncator

from servers.models.gateway.request import Request
from servers.models.people.user import User

KEPT = timedelta(days=7)
# Bytes of text that one may keep: then it ends, before a day of a busy box fills the disk.
MOST = 512 * 2**20


class CaptureQuerySet(models.QuerySet["Capture"]):
    def active(self) -> Self:
        """By the clock: one ends at its time whether anybody looks or not."""
        return self.filter(ended_at=None, until__gt=timezone.now()).select_related("by")

    def end(self, capture: "Capture", by: User | None) -> bool:
        """Whether this call did."""
        now = timezone.now()
        return bool(self.active().filter(pk=capture.pk).update(ended_at=now, ended_by=by))

    def add(self, capture: "Capture", exchanges: int, size: int) -> bool:
        """Whether it is full by this, and has ended."""
        more = {"exchanges": F("exchanges") + exchanges, "size": F("size") + size}
        self.filter(pk=capture.pk).update(**more)
        full = self.filter(pk=capture.pk, ended_at=None, size__gte=MOST)
        return bool(full.update(ended_at=timezone.now()))


class Capture(models.Model):
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.CharField(max_length=200)
    # The name of a server or model: what is passed on to others is not kept. "": of all.
    only = models.CharField(max_length=200, blank=True)
    began_at = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField(db_index=True)
    ended_at = models.DateTimeField(null=True)  # before its time
    ended_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    exchanges = models.PositiveIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0)  # bytes of text

    objects = CaptureQuerySet.as_manager()

    class Meta:
        ordering = ["-began_at", "-pk"]

    def __str__(self) -> str:
        return self.only or "all servers"

    @property
    def is_on(self) -> bool:
        return self.ended_at is None and timezone.now() < self.until

    @property
    def over_at(self) -> datetime:
        return self.ended_at or self.until

    @property
    def is_full(self) -> bool:
        return self.ended_at is not None and self.ended_by is None and self.size >= MOST


class CapturedCallQuerySet(models.QuerySet["CapturedCall"]):
    def recent(self) -> Self:
        """Those young enough: what nobody has deleted yet is not shown either."""
        return self.filter(request__at__gte=timezone.now() - KEPT)

    def for_table(self) -> Self:
        """With what a row of a table says, the latest first."""
        found = self.select_related(
            "request__person", "request__key", "request__run__server", "capture__by"
        )
        return found.order_by("-request__at", "-pk")

    def search(self, text: str) -> Self:
        """Those in which each of the words stands: in what was said, or in what a request is
        found by."""
        found = self
        for word in text.split():
            of_request = Q(request__in=Request.objects.order_by().search(word, also_causes=True))
            found = found.filter(
                of_request | Q(asked__icontains=word) | Q(answered__icontains=word)
            )
        return found

    def forget_old(self) -> None:
        self.filter(request__at__lt=timezone.now() - KEPT).delete()


class CapturedCall(models.Model):
    """One question and its answer: the words of a request, which says all else."""

    request = models.OneToOneField(Request, on_delete=models.CASCADE, related_name="captured_call")
    capture = models.ForeignKey(Capture, on_delete=models.CASCADE, related_name="kept")
    asked = models.TextField(blank=True)
    answered = models.TextField(blank=True)
    # Bytes that are not in them.
    asked_left_out = models.PositiveBigIntegerField(default=0)
    answered_left_out = models.PositiveBigIntegerField(default=0)

    objects = CapturedCallQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.request}"

    @property
    def gist(self) -> str:
        """What a line of a list says: the beginning of what was asked last."""
        return Truncator(" ".join(_last_said(self.asked).split())).chars(120) or "no text"

    @property
    def size(self) -> int:
        return len(self.asked.encode()) + len(self.answered.encode())


def _last_said(asked: str) -> str:
    try:
        said = json.loads(asked)
    except (ValueError, RecursionError):
        return asked[:1000]
    for name in ("messages", "input", "prompt"):
        found = said.get(name) if isinstance(said, dict) else None
        if text := _text(found):
            return text[:1000]
    return asked[:1000]


def _text(said: object, deep: int = 4) -> str:
    """The text itself, of the last message, or of the parts of one."""
    if isinstance(said, str):
        return said
    if isinstance(said, list) and deep:
        return next((text for each in reversed(said) if (text := _text(each, deep - 1))), "")
    if isinstance(said, dict) and deep:
        return _text(said.get("content", said.get("text")), deep - 1)
    return ""
