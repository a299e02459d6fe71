"""A restart of a box: what was wanted then, and what the box was before and after."""

from typing import Any, Self

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.people.user import User


class RebootQuerySet(models.QuerySet["Reboot"]):
    def unread(self) -> Self:
        """The newest of each box, unless somebody has read it."""
        newest = self.model._default_manager.filter(box=models.OuterRef("box")).order_by("-pk")
        return self.filter(pk=models.Subquery(newest.values("pk")[:1]), dismissed_at=None)


class Reboot(models.Model):
    """The first boot that a watcher sees of a box has no row: nothing was there before."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="reboots")
    boot_id = models.CharField(max_length=40)  # the kernel's
    booted_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(null=True)  # the watcher's last sign of life before it
    noted_at = models.DateTimeField(default=timezone.now)
    # {"driver", "docker", "kernel"}: versions; a key is missing where nobody could tell.
    before: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    after: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    # The runs that it has ended, or that were still to be started, in the order of their starts.
    runs: "models.JSONField[list[int], list[int]]" = models.JSONField(default=list)
    dismissed_at = models.DateTimeField(null=True)
    dismissed_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")

    objects = RebootQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["box", "boot_id"], name="one_row_a_boot")]

    def __str__(self) -> str:
        return f"{self.box_id} at {self.booted_at}"

    def dismiss(self, by: User) -> bool:
        """Whether this call did."""
        mine = type(self).objects.filter(pk=self.pk, dismissed_at=None)
        return mine.update(dismissed_at=timezone.now(), dismissed_by=by) == 1
