"""Trials of upgrades: what a server would start now, against what it runs, step by step."""

from typing import Self

from django.db import models
from django.utils import timezone

from servers.models.benchmarks import Benchmark
from servers.models.box import Box
from servers.models.canary import Canary
from servers.models.people.user import User
from servers.models.runs.run import Run
from servers.models.runs.server import Server


class TrialStep(models.TextChoices):
    WAIT = "wait", "Wait until nobody uses it"
    MEASURE_OLD = "measure-old", "Measure what runs"
    CHECK_OLD = "check-old", "Check its answers"
    LOAD_NEW = "load-new", "Stop it and load the new one"
    MEASURE_NEW = "measure-new", "Measure the new one"
    CHECK_NEW = "check-new", "Check its answers"
    # Where each is measured twice, in turns.
    AGAIN_OLD = "again-old", "Load the old one once more"
    MEASURE_OLD_AGAIN = "measure-old2", "Measure it again"
    AGAIN_NEW = "again-new", "Load the new one once more"
    MEASURE_NEW_AGAIN = "measure-new2", "Measure it again"
    GO_BACK = "go-back", "Load the old one again"
    OVER = "over", "Over"


class TrialDecision(models.TextChoices):
    NONE = ""
    KEEP = "keep", "kept"
    BACK = "back", "went back"
    ABANDONED = "abandoned", "given up"


_BEFORE_LOADING = (TrialStep.WAIT, TrialStep.MEASURE_OLD, TrialStep.CHECK_OLD)
_RUNS_NEW = (TrialStep.MEASURE_NEW, TrialStep.CHECK_NEW, TrialStep.MEASURE_NEW_AGAIN)


class UpgradeTrialQuerySet(models.QuerySet["UpgradeTrial"]):
    def open(self) -> Self:
        return self.exclude(step=TrialStep.OVER)

    def filter_begun(self) -> Self:
        """Open ones that people are told of."""
        return self.open().exclude(step=TrialStep.WAIT)

    def with_details(self) -> Self:
        return self.select_related(
            "box", "server__box", "by", "old_run__version__profile", "old_run__plan",
            "new_run__version", "measured_before", "measured_after", "answers_before",
            "answers_after", "measured_before_again", "measured_after_again", "decided_by",
        )  # fmt: skip


class UpgradeTrial(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="trials")
    server = models.ForeignKey(Server, null=True, on_delete=models.SET_NULL, related_name="trials")
    server_name = models.CharField(max_length=80)
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)
    step = models.CharField(
        max_length=12, choices=TrialStep, default=TrialStep.MEASURE_OLD, db_index=True
    )
    moved_at = models.DateTimeField(default=timezone.now)  # to this step
    old_run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    new_run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    # Each is asked for once a step; what came of it is looked at there.
    measured_before = models.ForeignKey(
        Benchmark, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    measured_after = models.ForeignKey(
        Benchmark, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    measured_before_again = models.ForeignKey(
        Benchmark, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    measured_after_again = models.ForeignKey(
        Benchmark, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    answers_before = models.ForeignKey(
        Canary, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    answers_after = models.ForeignKey(
        Canary, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    not_before = models.DateTimeField(null=True)  # None: at once
    is_patient = models.BooleanField(default=False)  # until nobody uses it
    is_twice = models.BooleanField(default=False)  # A B A B
    most_loss = models.FloatField(default=0.05)  # of the speed, that is put up with
    decision = models.CharField(max_length=10, choices=TrialDecision, blank=True)
    # None: the rule has decided.
    decided_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    said = models.TextField(blank=True)  # why it was decided so

    objects = UpgradeTrialQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            # What it measures must have the box for itself.
            models.UniqueConstraint(
                fields=["box"],
                condition=~models.Q(step=TrialStep.OVER),
                name="one_open_trial_a_box",
            )
        ]

    def __str__(self) -> str:
        return f"trial of {self.server_name}"

    @property
    def is_open(self) -> bool:
        return self.step != TrialStep.OVER

    @property
    def has_loaded(self) -> bool:
        """Whether what ran has been stopped for it."""
        return self.is_open and self.step not in _BEFORE_LOADING

    @property
    def runs_new(self) -> bool:
        """Whether what is tried is there now."""
        return self.step in _RUNS_NEW
