"""The memory release of a run."""

from typing import Any

from django.db import models
from django.utils import timezone

from servers.judge.memory import release_words
from servers.judge.memory.release import Release


class ReleaseFields(models.Model):
    """Part of Run."""

    # What its GPUs had in use before its container was made (judge.release.before); None: it
    # uses none, or nobody could tell.
    memory_before: "models.JSONField[dict[str, Any] | None, dict[str, Any] | None]" = (
        models.JSONField(null=True)
    )
    # A Release's; empty until it has ended.
    memory_after: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(
        default=dict
    )
    released_at = models.DateTimeField(null=True)  # since when nothing more is expected
    # The container's id once it was removed: a process may outlive even that.
    container_was = models.CharField(max_length=64, blank=True, db_index=True)

    class Meta:
        abstract = True

    @property
    def release(self) -> Release:
        return Release.from_json(self.memory_after) if self.memory_after else Release()

    @property
    def is_releasing(self) -> bool:
        """Its memory is on its way back, and somebody is looking."""
        return self.release.outcome == "releasing" and bool(self.release_words)

    @property
    def release_words(self) -> str:
        return release_words.sentence(self.release, now=timezone.now().timestamp())

    @property
    def release_short(self) -> str:
        return release_words.short(self.release)
