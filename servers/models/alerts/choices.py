"""The choice of a person: what to be notified of, in the browser and by mail."""

from collections.abc import Collection

from django.db import models

from servers.models.alerts.alert import Alert, AlertKind, Severity
from servers.models.people.user import User

_FAILURES = (AlertKind.FAILED, AlertKind.DIED, AlertKind.UNHEALTHY)


class NotificationTopic(models.TextChoices):
    """Beside these, "box:SLUG" is every alert of a box."""

    STARTS = "starts", "My starts that become ready"
    FAILURES = "failures", "My servers that fail or are unhealthy"
    CRITICAL = "critical", "Every critical alert"


def list_usual_topics() -> list[str]:
    return [NotificationTopic.STARTS, NotificationTopic.FAILURES]


class NotificationChoices(models.Model):
    person = models.OneToOneField(
        User, on_delete=models.CASCADE, related_name="notification_choices"
    )
    browser: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list_usual_topics)
    mail: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    address = models.EmailField(blank=True)

    def __str__(self) -> str:
        return f"notifications of {self.person}"


def find_choices(person: User) -> NotificationChoices:
    """Unsaved where the person has chosen nothing yet."""
    found = NotificationChoices.objects.filter(person=person).first()
    return found or NotificationChoices(person=person)


def is_wanted(alert: Alert, person: User, topics: Collection[str]) -> bool:
    if f"box:{alert.box.slug}" in topics:
        return True
    if NotificationTopic.CRITICAL in topics and alert.severity == Severity.CRITICAL:
        return True
    if alert.run is None or alert.run.started_by_id != person.pk:
        return False
    if alert.kind == AlertKind.READY:
        return NotificationTopic.STARTS in topics
    return NotificationTopic.FAILURES in topics and alert.kind in _FAILURES
