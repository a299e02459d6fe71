"""What tests of sending share: two alerts, an outlet that leads to a receiver, a watcher's round."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from servers.judge.alerts.case import AlertCase
from servers.lifecycle import alerts
from servers.models import Alert, Box, Notification, NotificationChannel
from servers.watcher.alerts import NotificationSender
from tests import factories
from tests.alerts.receiver import Receiver
from tests.waiting import PATIENCE

DIED = AlertCase(
    kind="died",
    subject="glm-5",
    severity="critical",
    title="glm-5 on rtx8 died after 3 h",
    memory="33.1 GiB were not released.",
)
HOT = AlertCase(
    kind="thermal", subject="thermal:GPU-1", severity="warning", title="rtx8: GPU 1 is hot"
)


def outlet(there: Receiver, name: str = "Team chat", **values: Any) -> NotificationChannel:
    return factories.outlet(name, f"{there.url}/hook", **values)


def raised(box: Box, case: AlertCase = DIED) -> Alert:
    made = alerts.raise_alert(box, case)
    assert made is not None
    return made


def send(box: Box) -> None:
    """A watcher's round, of a watcher that has just begun."""
    sending = NotificationSender(box)
    sending.step()
    sending.finish(PATIENCE)


def all_due() -> None:
    Notification.objects.update(next_try_at=timezone.now() - timedelta(seconds=1))
