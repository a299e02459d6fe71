"""The source of an imported profile, and how the two compare."""

from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.profiles.profile import ProfileVersion


class ProfileImport(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="imports")
    # A container's 64 digits, or "pid-4711-99" with the moment of the process's start.
    container = models.CharField(max_length=64)
    # Of a process: Found.identity, by which its next life is known; {} of a container.
    identity: "models.JSONField[dict[str, str], dict[str, str]]" = models.JSONField(default=dict)
    name = models.CharField(max_length=200)
    version = models.ForeignKey(ProfileVersion, on_delete=models.CASCADE, related_name="imports")
    made_at = models.DateTimeField(default=timezone.now)
    # launch.commandline.comparison.Row as lists: what, theirs, ours, verdict.
    rows: "models.JSONField[list[list[str]], list[list[str]]]" = models.JSONField(default=list)
    # Kind and sentence of what had to be assumed or left out.
    remarks: "models.JSONField[list[Any], list[Any]]" = models.JSONField(default=list)

    class Meta:
        verbose_name = "imported profile"
        constraints = [
            models.UniqueConstraint(fields=["box", "container"], name="one_likeness_a_container")
        ]

    def __str__(self) -> str:
        return f"{self.version_id} as {self.name}"

    @property
    def is_of_process(self) -> bool:
        return self.container.startswith("pid-")
