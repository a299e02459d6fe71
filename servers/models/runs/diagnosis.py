"""The diagnosis of a failed run."""

from typing import Any

from django.db import models


class DiagnosisFields(models.Model):
    """Part of Run."""

    # {"outcome", "cause", "summary", "evidence": [[line, text]], "groups", "is_partial": only a
    # part of the log was there}; empty: not looked at yet.
    diagnosis: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    # {"driver", "boot": its box's boot id, "others": slugs, "free": bytes of its box's GPU memory} as it started.
    around: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)
    # A judge.logs.oom.Oom's: the kernel killed it, or a part of it, for want of main memory; {}: not known.
    oom: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)

    failure: "models.TextField[str, str]"

    class Meta:
        abstract = True

    @property
    def cause(self) -> str:
        """An id of the catalogue; "": not recognised, or not looked at."""
        return self.diagnosis.get("cause") or ""

    @property
    def why(self) -> str:
        """The sentence that says most of why it ended."""
        return self.diagnosis["summary"] if self.cause else self.failure
