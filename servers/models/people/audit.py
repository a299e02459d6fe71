"""The audit log."""

from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.people.user import User


class AuditEntry(models.Model):
    at = models.DateTimeField(default=timezone.now, db_index=True)
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    action = models.CharField(max_length=60)  # "start server", "change role"
    subject = models.CharField(max_length=200)  # the name of what it was done to
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"{self.by} {self.action} {self.subject}"

    @classmethod
    def note(cls, by: User | None, action: str, subject: object, **detail: Any) -> "AuditEntry":
        return cls.objects.create(by=by, action=action, subject=str(subject)[:200], detail=detail)
