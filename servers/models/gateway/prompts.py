"""Prompt sets and prompt runs."""

from typing import Any, Self

from django.db import models
from django.db.models import Count, F, Q
from django.utils import timezone

from servers.models.people.user import User
from servers.models.runs.run import Run

MOST = 20  # prompts of a set


class PromptSet(models.Model):
    name = models.CharField(max_length=80, unique=True)
    prompts: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class PromptRunQuerySet(models.QuerySet["PromptRun"]):
    def for_table(self) -> Self:
        """The newest first, with what is told of each."""
        found = self.select_related("by", "run__server__run", "run__version__profile")
        failed = Q(answers__body__error__message__isnull=False)
        counted = found.annotate(failed=Count("answers", filter=failed))
        return counted.annotate(answered=Count("answers") - F("failed")).order_by("-at", "-pk")


class PromptRun(models.Model):
    """A set as it was asked of one run, a prompt at a time."""

    prompt_set = models.ForeignKey(PromptSet, on_delete=models.CASCADE, related_name="prompt_runs")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="prompt_runs")
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    prompts: "models.JSONField[list[str], list[str]]" = models.JSONField()  # as they were then
    # As the playground's form has them.
    params: "models.JSONField[dict[str, str], dict[str, str]]" = models.JSONField(default=dict)

    objects = PromptRunQuerySet.as_manager()

    # Of shown() alone.
    answered: int
    failed: int

    def __str__(self) -> str:
        return f"{self.prompt_set} asked of {self.run}"


class PromptAnswer(models.Model):
    round = models.ForeignKey(PromptRun, on_delete=models.CASCADE, related_name="answers")
    place = models.PositiveIntegerField()  # of its prompt, from 0
    # As a conversation keeps an answer: only browsers read what is in it.
    body: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField()

    class Meta:
        ordering = ["place"]
        constraints = [
            models.UniqueConstraint(fields=["round", "place"], name="one_answer_a_prompt")
        ]

    def __str__(self) -> str:
        return f"answer {self.place} of {self.round_id}"
