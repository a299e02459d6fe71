"""The pace of a further box: each of its looks is a message to the hub, so it takes fewer while nothing runs."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db.models import Q

from servers.judge.memory import holders
from servers.models import Box, Run
from servers.models.runs.run import ACTIVE

IDLE_EVERY = 5.0  # seconds between looks, and between samples that are told
BUSY_FOR = 60.0  # seconds after the last run: what has ended is still judged


class BoxPace:
    """Whether this box is idle: a further one without a run, a planned restart or a job."""

    def __init__(self, box: Box, stopping: threading.Event) -> None:
        self.box = box
        self._stopping = stopping
        self._stirred = threading.Condition()
        self._busy_until = time.monotonic() + BUSY_FOR
        self._told_at = float("-inf")
        self._told: object = None
        self._points: list[dict[str, Any]] = []

    @property
    def is_idle(self) -> bool:
        return settings.WIRE == "box" and time.monotonic() >= self._busy_until

    def stir(self) -> None:
        """Something happens, or is asked for: whoever waits looks now."""
        with self._stirred:
            self._busy_until = time.monotonic() + BUSY_FOR
            self._stirred.notify_all()

    def look(self, *, is_busy: bool = False) -> None:
        """See in the rows whether something runs; `is_busy`: something else does."""
        if settings.WIRE != "box":
            return
        has_runs = Q(state__in=ACTIVE) | Q(restart_at__isnull=False)
        if is_busy or Run.objects.filter(has_runs, server__box=self.box).exists():
            self.stir()

    def stretch(self, seconds: float) -> float:
        return max(seconds, IDLE_EVERY) if self.is_idle else seconds

    def wait(self, seconds: float) -> bool:
        """Until the next look, which is so far away on a busy box; whether the watcher is to stop."""
        with self._stirred:
            if self.is_idle:
                self._stirred.wait(max(seconds, IDLE_EVERY))
                return self._stopping.is_set()
        return self._stopping.wait(seconds)

    def take_points(self, sample: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """The chart points that go with this sample; None: it is not told.

        At once where the box is busy, or what is thought of its GPUs has changed.
        """
        if sample.get("stale_s") is None:
            self._points.append(holders.point(sample))
        now = time.monotonic()
        if self.is_idle and _judge(sample) == self._told and now - self._told_at < IDLE_EVERY:
            return None
        points, self._points = self._points, []
        self._told_at, self._told = now, _judge(sample)
        return points


def _judge(sample: Mapping[str, Any]) -> object:
    verdicts = [(each["gpu"], each["verdict"]) for each in sample.get("verdicts") or []]
    findings = [each["rule"] for each in sample.get("findings") or []]
    return verdicts, findings, sample.get("error"), sample.get("stale_s") is None
