"""Users of a run in the playground, and when last."""

from datetime import timedelta

from django.db import models
from django.utils import timezone

from servers.models.people.user import User
from servers.models.runs.run import Run

# Whoever has asked within this time still sits before the answer.
LATELY = timedelta(minutes=15)


class ActiveUserQuerySet(models.QuerySet["ActiveUser"]):
    def lately(self) -> "ActiveUserQuerySet":
        return self.filter(at__gt=timezone.now() - LATELY).order_by("-at")


class ActiveUser(models.Model):
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="active_users")
    by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()

    objects = ActiveUserQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "by"], name="one_use_a_person")]

    def __str__(self) -> str:
        return f"{self.by} of run {self.run_id}"
