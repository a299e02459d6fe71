"""Notices that need a person now, alerts that nobody has acknowledged, and notices for browsers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.db.models import F, Min, Q
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from servers.judge.alerts import attention as judge
from servers.judge.alerts.attention import AttentionAlert, BoxState, Notice
from servers.judge.alerts.boxes import data_folder
from servers.judge.alerts.runs import span
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
from servers.models.alerts import (
    AlertKind,
    NotificationTopic,
    Severity,
    What,
    find_choices,
    is_wanted,
)
from servers.state.samples import disk as read_disk
from servers.state.samples import newest

# A watcher that runs has taken up a test by then.
TAKEN_UP = timedelta(seconds=20)


def problems(box: Box) -> tuple[tuple[str, str], ...]:
    return tuple((each["what"], each["fix"]) for each in box.problems)


def now() -> list[Notice]:
    """The same of all boxes, for pages that show none of them."""
    boxes = list(Box.objects.all())
    return attention(boxes, {box.slug: newest(box.slug) for box in boxes})


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
    disk = read_disk()
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
    alerts = Alert.objects.open()
    # Every page asks for them, and mostly there is none: a statement with all of the columns of
    # three tables is made for nothing then.
    if not alerts.exists():
        return []
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
        for alert in alerts.select_related("box", "server").order_by("pk")
    ]


def _unwell() -> list[Notice]:
    """Engines whose GPUs give a deadlock away, or that are dead behind a green health path."""
    found = []
    signs = Q(health__spins_since__isnull=False) | Q(
        health__unhealthy_since__isnull=False, state="ready"
    )
    runs = Run.objects.active().filter(signs)
    for run in runs.select_related("version", "server__box", "start", "health").fetch_any():
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


# So many alerts are shown with all that is known of them; of more, the titles.
UNFOLDED = 4


def page(person: User, notices: list[Notice]) -> dict[str, Any]:
    last = Alert.objects.exclude(cleared_at=None).order_by("-cleared_at").first()
    groups = _group(list(Alert.objects.open().with_details()), notices)
    return {
        "person": person,
        "over": last.cleared_at.isoformat() if last and last.cleared_at else "",
        "groups": groups,
        "is_folded": sum(group.count for group in groups) > UNFOLDED,
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
