"""A run's state since it is ready: health and smoke test."""

from typing import Any

from django.db import models


class ServingFields(models.Model):
    """Part of Run."""

    # Since when it is unhealthy, and why, to go on after "unhealthy: ". None: it is not.
    unhealthy_since = models.DateTimeField(null=True)
    unhealthy_because = models.CharField(max_length=200, blank=True)
    slow_because = models.CharField(max_length=200, blank=True)  # after "slow to answer: "

    # How it answered the one question that inferdash asks: host.runs.questions.Answer, with "before"
    # (tokens a second of the last good run), "remarks" and "is_faulty". Empty: not asked.
    first_answer: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(
        default=dict
    )

    class Meta:
        abstract = True

    # Of the run itself, which this is a part of.
    state: "models.CharField[str, str]"

    @property
    def is_unhealthy(self) -> bool:
        return self.state == "ready" and self.unhealthy_since is not None

    @property
    def first_answer_words(self) -> str:
        """ "64 tokens, the first after 85 ms, 33 tok/s"; "" where it was not asked."""
        said = self.first_answer
        if not said or said["error"]:
            return f"none: {said['error']}" if said else ""
        parts = [f"{said['tokens']} token{'' if said['tokens'] == 1 else 's'}"]
        if (seconds := said["first_token"]) is not None:
            shown = f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
            parts.append(f"the first after {shown}")
        if said["rate"] is not None:
            parts.append(f"{said['rate']:.3g} tok/s")
        return ", ".join(parts)

    @property
    def ready_but(self) -> tuple[str, ...]:
        """What is not as it should be with its first answer, each to go on after "ready, but "."""
        return tuple(self.first_answer.get("remarks", ()))
