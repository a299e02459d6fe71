"""Parameters for talking to a profile's model, kept under a name for the whole team."""

from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.people.user import User
from servers.models.profiles.profile import Profile

MOST = 100  # of one profile


class Preset(models.Model):
    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="presets")
    name = models.CharField(max_length=60)
    # As a conversation has them: {"params", "tools", "schema"}. Only browsers read what is in these.
    values: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField()
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "name"], name="one_preset_a_name")
        ]

    def __str__(self) -> str:
        return self.name
