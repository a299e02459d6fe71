"""Benchmarks: what check-ups of servers have measured, and on what."""

from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.jobs import OPEN, Job, JobState
from servers.models.people.user import User
from servers.models.profiles import ProfileVersion
from servers.models.runs.run import Run
from servers.models.runs.server import Server

SCHEMA = 1
# Single requests are kept for so long, figures of rounds with their result.
REQUESTS_KEPT_FOR = timedelta(days=90)
MOST_RESULTS = 500  # of a box


class BenchmarkOutcome(models.TextChoices):
    """Why it ended. What was measured until then is kept in any case."""

    OPEN = ""
    WHOLE = "whole"
    STOPPED = "stopped"
    LIMIT = "limit"  # of its time or requests
    FAILED = "failed"


class BenchmarkQuerySet(models.QuerySet["Benchmark"]):
    def with_details(self) -> Self:
        return self.select_related("box", "server", "version__profile", "job", "by")

    def filter_open(self) -> Self:
        return self.filter(ended_at=None, job__state__in=OPEN)

    def filter_clean(self) -> Self:
        """Whole results that nothing is known to have changed."""
        return self.filter(is_clean=True, outcome=BenchmarkOutcome.WHOLE)

    def filter_newest_clean(self) -> Self:
        """One of each server and check-up, that was measured here."""
        mine = self.filter_clean().filter(source="", server__removed_at=None).exclude(server=None)
        newest = mine.order_by().values("server", "preset").annotate(newest=models.Max("pk"))
        return self.filter(pk__in=newest.values("newest"))

    def forget_old(self) -> None:
        before = timezone.now() - REQUESTS_KEPT_FOR
        old = BenchmarkPoint.objects.filter(benchmark__asked_at__lt=before)
        old.exclude(requests=[]).update(requests=[])
        for box in Box.objects.all():
            newest = self.filter(box=box).order_by("-pk")
            # A list: no database deletes by a subquery that is cut off.
            kept = list(newest.values_list("pk", flat=True)[:MOST_RESULTS])
            self.filter(box=box, pk__lt=min(kept, default=0)).delete()


class CheckupRow(models.Model):
    """How far a check-up is, by its job and its end."""

    job: "models.OneToOneField[Job | None, Job | None]"
    ended_at: "models.DateTimeField[datetime | None, datetime | None]"
    outcome: "models.CharField[str, str]"
    said: "models.TextField[str, str]"

    class Meta:
        abstract = True

    @property
    def is_open(self) -> bool:
        return self.ended_at is None and self.job is not None and self.job.is_open

    @property
    def state(self) -> str:
        """In a word for people: waiting, measuring, paused, stopping, done, stopped, limit reached,
        failed."""
        if self.is_open and self.job is not None:
            if self.job.cancel_requested:
                return "stopping"
            if self.job.is_at_work:
                return "paused" if self.job.result.get("is_paused") else "measuring"
            return "waiting"
        match self.outcome:
            case BenchmarkOutcome.WHOLE:
                return "done"
            case BenchmarkOutcome.LIMIT:
                return "limit reached"
            case BenchmarkOutcome.STOPPED:
                return "stopped"
        is_cancelled = self.job is not None and self.job.state == JobState.CANCELLED
        return "stopped" if is_cancelled else "failed"

    @property
    def left(self) -> float | None:
        """Seconds that it may still take, as its box last said; None: nobody knows."""
        return self.job.result.get("left") if self.is_open and self.job is not None else None

    @property
    def why(self) -> str:
        """Why it is not whole, or took longer; "" where there is nothing to say, or it goes on."""
        if self.said or self.is_open or self.outcome == BenchmarkOutcome.WHOLE:
            return self.said
        return self.job.said if self.job is not None else ""


class Benchmark(CheckupRow):
    schema = models.PositiveSmallIntegerField(default=SCHEMA)
    # None: it was measured elsewhere, and came as a file. `source` says of which kind.
    box = models.ForeignKey(Box, null=True, on_delete=models.CASCADE, related_name="benchmarks")
    source = models.CharField(max_length=20, blank=True)
    server = models.ForeignKey(
        Server, null=True, on_delete=models.SET_NULL, related_name="benchmarks"
    )
    server_name = models.CharField(max_length=80)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    version = models.ForeignKey(
        ProfileVersion, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    job = models.OneToOneField(Job, null=True, on_delete=models.SET_NULL, related_name="benchmark")
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    after_start = models.BooleanField(default=False)  # nobody asked, the profile did
    preset = models.CharField(max_length=40)
    title = models.CharField(max_length=80)  # of the preset
    preset_version = models.PositiveSmallIntegerField()
    asked_at = models.DateTimeField(default=timezone.now)
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=10, choices=BenchmarkOutcome, blank=True)
    said = models.TextField(blank=True)  # why it is not whole, or took longer
    # What it was measured on, by name; lifecycle.benchmarks.subject says which.
    measured_on: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    # None: nothing was measured, or by a program that does not tell.
    is_clean = models.BooleanField(null=True)

    objects = BenchmarkQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["server", "-id"])]

    def __str__(self) -> str:
        return f"{self.server_name}, {self.title}"


class BenchmarkPoint(models.Model):
    """What was asked at once, and what came of it, round by round."""

    benchmark = models.ForeignKey(Benchmark, on_delete=models.CASCADE, related_name="points")
    place = models.PositiveSmallIntegerField()  # from 0
    name = models.CharField(max_length=80)
    concurrency = models.PositiveIntegerField()
    prompt_tokens = models.PositiveIntegerField()  # as wanted; 0: of a text of its own
    output_tokens = models.PositiveIntegerField()
    # {"figures": PointFigures, "conditions": PointConditions, "at": unix seconds} each.
    rounds: "models.JSONField[list[dict[str, Any]], list[dict[str, Any]]]" = models.JSONField(
        default=list
    )
    # Of each round, its requests: seconds since the round began, and tokens.
    requests: "models.JSONField[list[list[dict[str, Any]]], list[list[dict[str, Any]]]]" = (
        models.JSONField(default=list)
    )
    taints: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)

    class Meta:
        ordering = ["place"]
        constraints = [
            models.UniqueConstraint(fields=["benchmark", "place"], name="one_point_a_place")
        ]

    def __str__(self) -> str:
        return f"point {self.place} of benchmark {self.benchmark_id}"
