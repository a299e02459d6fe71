"""Other workloads on a box, and what the watcher cannot see."""

from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.box import Box


class OtherWorkloads(models.Model):
    """Apart from the box's row, which pages read with every server."""

    box = models.OneToOneField(Box, on_delete=models.CASCADE, related_name="other_workloads")
    looked_at = models.DateTimeField(default=timezone.now)
    # Why Docker could not be asked at the last look; then the rest is of an earlier one.
    trouble = models.TextField(blank=True)
    # Of others, that run and are no engines: {"container", "name", "image", "ports", "started_at",
    # "wants_gpus", "origin"}; of who works for a cluster of Ray's also "ray", its head's address, and
    # "pids" of one in no container.
    containers: "models.JSONField[list[dict[str, Any]], list[dict[str, Any]]]" = models.JSONField(
        default=list
    )
    # {"count", "size"}; {}: nobody has counted.
    images: "models.JSONField[dict[str, int], dict[str, int]]" = models.JSONField(default=dict)
    # {"what", "why", "command"}: see judge.external.missing_permissions.
    unseen: "models.JSONField[list[dict[str, str]], list[dict[str, str]]]" = models.JSONField(
        default=list
    )

    class Meta:
        verbose_name_plural = "other workloads"

    def __str__(self) -> str:
        return f"other workloads of {self.box_id}"
