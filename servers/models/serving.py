"""What is known of a run since it is ready: whether it is well, and what it answered first."""

from typing import Any

from django.db import models


class Serving(models.Model):
    """Part of Run."""

    # Since when it is unhealthy, and why, to go on after "unhealthy: ". None: it is not.
    unhealthy_since = models.DateTimeField(null=True)
    unhealthy_because = models.CharField(max_length=200, blank=True)
    slow_because = models.CharField(max_length=200, blank=True)  # after "slow to answer: "

    # How it answered the one question that inferdash asks: host.questions.Answer, with "before"
    # (tokens a second of the last good run) and "remarks". Empty: not asked.
    first_answer: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(
        default=dict
    )

    class Meta:
        abstract = True

    @property
    def ready_but(self) -> tuple[str, ...]:
        """What is not as it should be with its first answer, each to go on after "ready, but "."""
        return tuple(self.first_answer.get("remarks", ()))
