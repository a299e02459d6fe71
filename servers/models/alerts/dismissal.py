"""Notices that a person has dismissed from the dashboard."""

from typing import Self

from django.db import models
from django.utils import timezone

from servers.models.people.user import User


class DismissalQuerySet(models.QuerySet["Dismissal"]):
    def for_person(self, person: User) -> Self:
        return self.filter(by=person)


class Dismissal(models.Model):
    """Of one notice, until it comes anew; for this person only, unlike an acknowledged alert."""

    by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="dismissals")
    mark = models.CharField(max_length=300)  # judge.alerts.attention.Notice.mark
    at = models.DateTimeField(default=timezone.now)

    objects = DismissalQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["by", "mark"], name="one_dismissal_a_notice")
        ]

    def __str__(self) -> str:
        return f"{self.mark} by {self.by_id}"
