"""Notices that need a person now, and alerts that nobody has acknowledged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import Min, Q
from django.template.loader import render_to_string
from django.utils import timezone

from servers.judge.alerts import attention as judge
from servers.judge.alerts.attention import AttentionAlert, BoxState, Notice
from servers.judge.alerts.boxes import data_folder
from servers.lifecycle.runs import starts
from servers.models import (
    Alert,
    Box,
    Dismissal,
    Notification,
    NotificationChannel,
    Run,
    Server,
    User,
)
from servers.models.alerts.alert import AlertKind, Severity, What
from servers.state import box_samples, data_disk

# A watcher that runs has taken up a test by then.
TAKEN_UP = timedelta(seconds=20)


def problems(box: Box) -> tuple[tuple[str, str], ...]:
    return tuple((each["what"], each["fix"]) for each in box.problems)


def now() -> list[Notice]:
    """The same of all boxes, for pages that show none of them."""
    boxes = list(Box.objects.all())
    return attention(boxes, {box.slug: box_samples.newest(box.slug) for box in boxes})


def list_for(person: User, notices: Iterable[Notice]) -> list[Notice]:
    """Those that this person has not dismissed."""
    dismissed = Dismissal.objects.for_person(person).values_list("mark", "at")
    return judge.drop_dismissed(notices, dict(dismissed))


def dismiss(person: User, mark: str) -> None:
    """For this person; what is over meanwhile is forgotten, so that it is told when it comes again."""
    marks = {notice.mark for notice in now()}
    Dismissal.objects.for_person(person).exclude(mark__in=marks).delete()
    if mark in marks:
        Dismissal.objects.update_or_create(by=person, mark=mark, defaults={"at": timezone.now()})


def attention(boxes: Iterable[Box], samples: Mapping[str, dict[str, Any] | None]) -> list[Notice]:
    """What needs a person, failed servers first; without what somebody has acknowledged."""
    failed = [_of_failure(slug, run) for slug, run in Server.objects.failures()]
    failed += _unwell()
    states = [
        BoxState(
            slug=box.slug,
            is_silent=box.is_silent,
            was_seen=box.seen_at is not None,
            problems=problems(box),
            sample=samples[box.slug],
            strays=sum(bool(each["is_running"]) for each in box.left_behind),
        )
        for box in boxes
    ]
    seen = failed + judge.of_boxes(states) + _of_data_folder(states)
    notices = judge.with_alerts(seen, _list_alerts())
    return sorted(notices, key=lambda notice: notice.level != "failed")


def _of_failure(slug: str, run: Run) -> Notice:
    return Notice(
        level="failed",
        about="server",
        slug=slug,
        what="failed",
        fix=run.why,
        since=run.ended_at,
        occurrence=f"run-{run.pk}",
    )


def _of_data_folder(states: list[BoxState]) -> list[Notice]:
    """Of this process's own box: while the disk is full, no alert of it can be written."""
    disk = data_disk.disk()
    here = [state.slug for state in states if state.slug == settings.BOX]
    case = data_folder(settings.BOX, disk.free, disk.total) if disk is not None and here else None
    if case is None:
        return []
    return [
        Notice(
            level="failed" if case.severity == "critical" else "attention",
            about="box",
            slug=settings.BOX,
            what=case.title.removeprefix(f"{settings.BOX}: "),
            fix=case.advice,
            kind=case.kind,
            subject=case.subject,
            code=case.code,
            params=case.params,
        )
    ]


def _list_alerts() -> list[AttentionAlert]:
    return [
        AttentionAlert(
            pk=alert.pk,
            box=alert.box.slug,
            server=alert.server.slug if alert.server else "",
            kind=alert.kind,
            subject=alert.subject,
            severity=alert.severity,
            title=alert.title,
            fix=" ".join(part for part in (alert.detail, alert.memory, alert.advice) if part),
            is_known=alert.acknowledged_at is not None,
            raised_at=alert.raised_at,
        )
        for alert in Alert.objects.open().select_related("box", "server").order_by("pk")
    ]


def _unwell() -> list[Notice]:
    """Engines whose GPUs give a deadlock away, or that are dead behind a green health path."""
    found = []
    signs = Q(health__spins_since__isnull=False) | Q(
        health__unhealthy_since__isnull=False, state="ready"
    )
    for run in (
        Run.objects.active()
        .filter(signs)
        .select_related("version", "server__box", "start", "health")
    ):
        launch, box = run.version.launch, run.server.box
        words, fix = starts.describe_deadlock(run, unified=box.is_unified)
        what = f"is stuck: {words}"
        if not words and run.is_unhealthy:
            what = f"is unhealthy: {run.health.unhealthy_because}"
            fix = "Look at its log, then restart it."
            if run.is_watched:
                fix = "Look at its log, then restart it where it was started."
            elif launch.restart_unhealthy and not run.status_message:
                fix = "By its profile it is ended and started again soon."
        if words or run.is_unhealthy:
            slug = run.server.slug
            occurrence = f"unwell-{run.pk}"
            found.append(
                Notice(
                    level="failed",
                    about="server",
                    slug=slug,
                    what=what,
                    fix=fix,
                    since=run.health.unhealthy_since or run.health.spins_since,
                    occurrence=occurrence,
                )
            )
    return found


# Every viewer gets the same: it is rendered once.
@lru_cache(maxsize=16)
def list_html(notices: tuple[Notice, ...]) -> str:
    return render_to_string("_live_attention.html", {"notices": notices})


@lru_cache(maxsize=16)
def bell_html(count: int) -> str:
    return render_to_string("_live_bell.html", {"count": count})


def alerts_html(person: User, notices: list[Notice]) -> str:
    """The part of the page of alerts that changes."""
    return render_to_string("alerts/_live_open.html", page(person, notices))


@dataclass(frozen=True, kw_only=True)
class AlertGroup:
    """Open alerts of one severity, and what is seen now and told of by no alert (yet)."""

    key: str
    title: str
    alerts: tuple[Alert, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def count(self) -> int:
        return len(self.alerts) + len(self.notices)


def page(person: User, notices: list[Notice]) -> dict[str, Any]:
    last = Alert.objects.exclude(cleared_at=None).order_by("-cleared_at").first()
    groups = _group(list(Alert.objects.open().with_details()), notices)
    return {
        "person": person,
        "over": last.cleared_at.isoformat() if last and last.cleared_at else "",
        "groups": groups,
    }


def _group(alerts: list[Alert], notices: list[Notice]) -> list[AlertGroup]:
    """The worst first, and what somebody looks after already at the end."""
    known = tuple(each for each in alerts if each.acknowledged_at)
    untold = [notice for notice in notices if notice.alert is None]
    levels = {Severity.CRITICAL: "failed", Severity.WARNING: "attention"}
    found = [
        AlertGroup(
            key=severity,
            title=severity.label,
            alerts=tuple(a for a in alerts if a.severity == severity and not a.acknowledged_at),
            notices=tuple(each for each in untold if each.level == levels.get(severity)),
        )
        for severity in reversed(Severity)
    ]
    found.append(AlertGroup(key="known", title="Acknowledged", alerts=known))
    return [group for group in found if group.count]


def render_channels() -> str:
    return render_to_string("alerts/_live_channels.html", {"channels": list_channels()})


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A notification channel as the admins' page shows it."""

    channel: NotificationChannel
    about: tuple[str, ...]  # names of the kinds that it is for; (): all
    test: Notification | None  # the newest
    waiting: int  # messages that were not taken yet
    next_try_at: datetime | None  # the first of those that were tried
    lost: int  # messages that were given up, of what is still so

    @property
    def is_late(self) -> bool:
        return self.test is not None and timezone.now() - self.test.made_at > TAKEN_UP


def list_channels() -> list[Shown]:
    found = (
        NotificationChannel.objects.filter_team()
        .select_related("box", "created_by")
        .order_by("name")
    )
    words = dict(AlertKind.choices)
    return [
        Shown(
            channel=channel,
            about=tuple(words.get(kind, kind) for kind in channel.kinds),
            test=channel.notifications.filter(what=What.TEST).order_by("-pk").first(),
            waiting=channel.notifications.unsent().exclude(what=What.TEST).count(),
            next_try_at=channel.notifications.unsent()
            .exclude(error="")
            .aggregate(first=Min("next_try_at"))["first"],
            lost=channel.notifications.recently_given_up().count(),
        )
        for channel in found
    ]
