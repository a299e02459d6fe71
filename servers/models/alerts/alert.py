"""Something that a person should know of: when, what, until when, and who knows of it."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.urls import reverse
from django.utils import timezone

from servers.judge.alerts.case import KINDS
from servers.models.box import Box
from servers.models.people.user import User
from servers.models.runs.run import Run
from servers.models.runs.server import Server


class Severity(models.TextChoices):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class AlertQuerySet(models.QuerySet["Alert"]):
    def open(self) -> Self:
        return self.filter(cleared_at=None)

    def with_details(self) -> Self:
        return self.select_related("box", "server", "run", "acknowledged_by")


class Alert(models.Model):
    """Raised and cleared by a watcher; people only say that they know of it."""

    Severity = Severity

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="alerts")
    # What it is about, while that is there; its name stays in `title` and `server_name`.
    server = models.ForeignKey(Server, null=True, on_delete=models.SET_NULL, related_name="+")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="+")
    server_name = models.CharField(max_length=80, blank=True)
    checkpoint = models.CharField(max_length=300, blank=True)
    kind = models.CharField(max_length=20, choices=KINDS)
    # Tells those of one kind and box apart: a server's slug, a GPU's UUID, a rule and a folder.
    subject = models.CharField(max_length=200, blank=True)
    severity = models.CharField(max_length=10, choices=Severity)
    title = models.CharField(max_length=300)  # names the model and the box
    detail = models.TextField(blank=True)
    memory = models.TextField(blank=True)  # what happened to it, in a sentence
    advice = models.TextField(blank=True)
    raised_at = models.DateTimeField(default=timezone.now, db_index=True)
    cleared_at = models.DateTimeField(null=True, db_index=True)  # None: it still is so
    acknowledged_by = models.ForeignKey(
        User, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    acknowledged_at = models.DateTimeField(null=True)

    objects = AlertQuerySet.as_manager()

    class Meta:
        ordering = ["-raised_at", "-pk"]
        constraints = [
            # Several watchers may see the same at once: all but one fail here.
            models.UniqueConstraint(
                fields=["box", "kind", "subject"],
                condition=models.Q(cleared_at=None),
                name="one_open_alert_a_subject",
            )
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        """Where its cause stands, and what can be done about it."""
        if self.run_id:
            return reverse("run", args=[self.run_id])
        if self.kind == "download":
            return f"{reverse('models')}#downloads"
        if self.kind == "pull":
            return reverse("images")
        return reverse("box", args=[self.box.slug])

    @property
    def is_open(self) -> bool:
        return self.cleared_at is None

    @property
    def lasted(self) -> timedelta | None:
        """None while it lasts, and of what happened at one moment."""
        if self.cleared_at is None or self.cleared_at == self.raised_at:
            return None
        return self.cleared_at - self.raised_at
