"""Notices for a person's browser: what has happened lately that they want to be told of."""

from dataclasses import dataclass
from datetime import timedelta

from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone

from servers.judge.alerts.runs import span
from servers.models import Alert, Run, User
from servers.models.alerts.alert import AlertKind
from servers.models.alerts.choices import NotificationTopic, find_choices, is_wanted

# So long is something news. Browsers remember what they have shown.
RECENT = timedelta(minutes=10)
LONGEST = 240  # characters of a text


@dataclass(frozen=True, kw_only=True)
class BrowserNotice:
    id: str  # the same for the same thing, however often it is sent
    title: str
    text: str
    url: str


def list_notices(person: User) -> list[BrowserNotice]:
    """All of the last minutes, so that a browser that was away has missed nothing."""
    since = timezone.now() - RECENT
    topics = find_choices(person).browser
    found: dict[str, BrowserNotice] = {}
    if NotificationTopic.STARTS in topics:
        ready = Run.objects.filter(started_by=person, ready_at__gt=since).order_by("ready_at")
        for run in ready.select_related("server__box"):
            notice = _describe_start(run)
            found[notice.id] = notice
    told = Alert.objects.filter(told_at__gt=since).filter(
        # Still so, or an event, which is over at once.
        Q(cleared_at=None) | Q(cleared_at=F("raised_at"))
    )
    for alert in told.with_details().order_by("told_at"):
        if is_wanted(alert, person, topics):
            notice = _describe_alert(alert)
            found.setdefault(notice.id, notice)
    return list(found.values())


def _describe_start(run: Run) -> BrowserNotice:
    took = (run.ready_at - run.created_at).total_seconds() if run.ready_at else 0
    return BrowserNotice(
        id=f"ready-{run.pk}",
        title=f"{run.server.slug} is ready",
        text=f"On {run.server.box.slug}, after {span(took)}.",
        url=reverse("server", args=[run.server.slug]),
    )


def _describe_alert(alert: Alert) -> BrowserNotice:
    is_start = alert.kind == AlertKind.READY and alert.run_id is not None
    text = " ".join(filter(None, (alert.detail, alert.advice)))
    return BrowserNotice(
        id=f"ready-{alert.run_id}" if is_start else f"alert-{alert.pk}-{alert.severity}",
        title=alert.title,
        text=text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…",
        url=alert.get_absolute_url(),
    )
