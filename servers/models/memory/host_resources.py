"""Host resources of a box that starts need."""

from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.box import Box


class HostResources(models.Model):
    """Apart from the box's row, which pages read with every server."""

    box = models.OneToOneField(Box, on_delete=models.CASCADE, related_name="host_resources")
    seen_at = models.DateTimeField(default=timezone.now)
    # {"architecture", "runtimes", "toolkit", "disks": {"images", "cache", "shm": {"path",
    # "free", "total", "device"}}, "listening": ports, "addresses": of IPv4}; a key is missing where nobody could tell.
    found: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    # Reference -> {"id", "architecture", "size", "require"}; None for one that is not there.
    images: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "host resources"

    def __str__(self) -> str:
        return f"host resources of {self.box_id}"
