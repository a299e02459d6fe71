"""Canaries: what servers have answered to questions whose answers are known, and the verdicts."""

from datetime import timedelta
from typing import Any, Self

from django.db import models
from django.utils import timezone

from servers.models.benchmarks import BenchmarkOutcome, CheckupRow
from servers.models.box import Box
from servers.models.jobs import Job
from servers.models.people.user import User
from servers.models.profiles import ProfileVersion
from servers.models.runs.run import Run
from servers.models.runs.server import Server

SCHEMA = 1
# Replies, with the logprobs of fingerprints, are kept for so long, verdicts with their canary. The
# newest good ones keep them: the next canary is compared with one.
REPLIES_KEPT_FOR = timedelta(days=90)
MOST_CANARIES = 500  # of a box


class CanaryOutcome(models.TextChoices):
    """What is judged of the whole. UNKNOWN: nothing of it could be told."""

    OPEN = ""
    PASS = "pass"  # noqa: S105 - no password
    CHANGED = "changed"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class CanaryQuerySet(models.QuerySet["Canary"]):
    def with_details(self) -> Self:
        return self.select_related("box", "server", "version__profile", "job", "by", "accepted_by")

    def without_replies(self) -> Self:
        return self.defer("items")

    def filter_newest_whole(self) -> Self:
        """One of each server that is there, and set."""
        whole = self.filter(outcome=BenchmarkOutcome.WHOLE, server__removed_at=None)
        newest = whole.exclude(server=None).order_by().values("server", "set_key")
        last = newest.annotate(last=models.Max("pk")).values("last")
        return self.filter(pk__in=last).without_replies().order_by("server_name", "set_key")

    def good(self) -> Self:
        """Those that another may be compared with."""
        is_good = models.Q(verdict=CanaryOutcome.PASS) | models.Q(accepted_at__isnull=False)
        return self.filter(is_good).exclude(items=[])

    def forget_old(self) -> None:
        before = timezone.now() - REPLIES_KEPT_FOR
        newest = self.good().order_by().values("model", "set_key").annotate(last=models.Max("pk"))
        kept = [each["last"] for each in newest]
        old = self.filter(asked_at__lt=before).exclude(pk__in=kept)
        old.exclude(items=[]).update(items=[])
        for box in Box.objects.all():
            latest = self.filter(box=box).order_by("-pk").values_list("pk", flat=True)
            # A list: no database deletes by a subquery that is cut off.
            left = min(list(latest[:MOST_CANARIES]), default=0)
            self.filter(box=box, pk__lt=left).exclude(pk__in=kept).delete()


class Canary(CheckupRow):
    schema = models.PositiveSmallIntegerField(default=SCHEMA)
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="canaries")
    server = models.ForeignKey(
        Server, null=True, on_delete=models.SET_NULL, related_name="canaries"
    )
    server_name = models.CharField(max_length=80)
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="canaries")
    version = models.ForeignKey(
        ProfileVersion, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    job = models.OneToOneField(Job, null=True, on_delete=models.SET_NULL, related_name="canary")
    # None: it began by itself, after a start that changed something.
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    set_key = models.CharField(max_length=20)
    set_version = models.PositiveSmallIntegerField()
    asked_at = models.DateTimeField(default=timezone.now)
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=10, choices=BenchmarkOutcome, blank=True)
    said = models.TextField(blank=True)  # of one that is not whole: why
    # What it was asked of, by name; lifecycle.benchmarks.subject says which.
    measured_on: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    model = models.CharField(max_length=300, blank=True, db_index=True)  # checkpoint
    verdict = models.CharField(max_length=10, choices=CanaryOutcome, blank=True)
    # judge.canary.verdicts.AnsweredItem each, and ItemVerdict each.
    items: "models.JSONField[list[dict[str, Any]], list[dict[str, Any]]]" = models.JSONField(
        default=list
    )
    verdicts: "models.JSONField[list[dict[str, Any]], list[dict[str, Any]]]" = models.JSONField(
        default=list
    )
    left_out = models.PositiveIntegerField(default=0)  # items that there was no time for
    rate = models.FloatField(null=True)  # tokens a second, the median over its answers
    compared_with = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # A person has looked at what has changed: these are the right answers from now on.
    accepted_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    accepted_at = models.DateTimeField(null=True)

    objects = CanaryQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["server", "-id"])]

    def __str__(self) -> str:
        return f"answers of {self.server_name}"
