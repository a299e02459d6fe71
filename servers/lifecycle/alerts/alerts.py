"""Alerts: raised, worse, over, and acknowledged."""

from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction
from django.utils import timezone

from servers import events
from servers.judge.alerts.case import AGAIN, COMES_BACK, AlertCase
from servers.models import Alert, AuditEntry, Box, Notification, NotificationChannel, Run, User
from servers.models.alerts.alert import What
from servers.models.alerts.choices import is_wanted

# What happened so long ago is kept, and not sent any more: nobody was there to see it.
NEWS = timedelta(hours=6)
# For so long is kept what is over.
KEPT = timedelta(days=400)


def raise_alert(box: Box, case: AlertCase) -> Alert | None:
    """Write it down with its messages; None when it is written down already."""
    now = timezone.now()
    at = datetime.fromtimestamp(case.began, UTC) if case.began is not None else now
    at = min(at, now)
    if case.is_event and _was_told(box, case):
        return None
    if case.kind in COMES_BACK and (back := _come_back(box, case, now)):
        return back
    run = _run(case)
    try:
        with transaction.atomic():
            alert = Alert.objects.create(
                box=box,
                server=run.server if run else None,
                run=run,
                server_name=run.server.slug if run else "",
                checkpoint=run.version.launch.checkpoint[:300] if run else "",
                kind=case.kind,
                subject=case.subject,
                severity=case.severity,
                raised_at=at,
                cleared_at=at if case.is_event else None,
                told_at=now if now - at < NEWS else None,
                **_words(case),
            )
            if now - at < NEWS:
                _send(alert, What.RAISED)
    except IntegrityError:
        return None
    events.publish_change("alerts")
    return alert


def worsen(alert: Alert, case: AlertCase) -> None:
    """It is worse than it was: that is told again, and asks for somebody again."""
    with transaction.atomic():
        still = Alert.objects.open().filter(pk=alert.pk).exclude(severity=case.severity)
        if not still.update(
            severity=case.severity,
            acknowledged_by=None,
            acknowledged_at=None,
            told_at=timezone.now(),
            **_words(case),
        ):
            return
        alert.refresh_from_db()
        _send(alert, What.WORSE)
    events.publish_change("alerts")


def reword(alert: Alert, case: AlertCase) -> None:
    if Alert.objects.open().filter(pk=alert.pk).update(**_words(case)):
        events.publish_change("alerts")


def clear(alert: Alert, *, why: str = "") -> None:
    """It is over. That is told to whom it was told, once it is sure that it does not come back.

    `why` takes the place of the advice, which nobody needs any more.
    """
    now = timezone.now()
    advice = {"advice": why} if why else {}
    with transaction.atomic():
        if not Alert.objects.open().filter(pk=alert.pk).update(cleared_at=now, **advice):
            return
        wait = timedelta(seconds=AGAIN if alert.kind in COMES_BACK else 0)
        told = alert.notifications.filter(what=What.RAISED, channel__is_enabled=True)
        Notification.objects.bulk_create(
            [
                Notification(
                    alert=alert,
                    channel_id=each.channel_id,
                    what=What.CLEARED,
                    next_try_at=now + wait,
                )
                for each in told
            ],
            ignore_conflicts=True,
        )
    events.publish_change("alerts")


def acknowledge(alert: Alert, *, by: User) -> bool:
    """Somebody looks after it. False when somebody does already."""
    free = Alert.objects.filter(pk=alert.pk, acknowledged_at=None)
    with transaction.atomic():
        if not free.update(acknowledged_by=by, acknowledged_at=timezone.now()):
            return False
        AuditEntry.note(by, "acknowledge alert", alert)
    events.publish_change("alerts")
    return True


def forget_old() -> None:
    old = timezone.now() - KEPT
    Alert.objects.filter(cleared_at__lt=old).delete()
    Notification.objects.filter(alert=None, made_at__lt=old).delete()


def _run(case: AlertCase) -> Run | None:
    if case.run is None:
        return None
    return Run.objects.select_related("server", "version").filter(pk=case.run).first()


def _was_told(box: Box, case: AlertCase) -> bool:
    return Alert.objects.filter(box=box, kind=case.kind, subject=case.subject).exists()


def _come_back(box: Box, case: AlertCase, now: datetime) -> Alert | None:
    """The alert of a moment ago, open again: nobody has been told yet that it was over."""
    same = Alert.objects.filter(box=box, kind=case.kind, subject=case.subject)
    last = same.filter(cleared_at__gt=now - timedelta(seconds=AGAIN)).first()
    if last is None or Alert.objects.open().filter(box=box, kind=case.kind, subject=case.subject):
        return None
    with transaction.atomic():
        reopened = Alert.objects.filter(pk=last.pk).exclude(cleared_at=None)
        if not reopened.update(cleared_at=None, **_words(case)):
            return None
        last.notifications.filter(what=What.CLEARED, tries=0, delivered_at=None).delete()
    last.refresh_from_db()
    events.publish_change("alerts")
    return last


def _words(case: AlertCase) -> dict[str, str]:
    return {
        "title": case.title[:300],
        "detail": case.detail,
        "memory": case.memory,
        "advice": case.advice,
    }


def _is_wanted(owner: User, alert: Alert) -> bool:
    choices = getattr(owner, "notification_choices", None)
    return bool(choices and owner.may_view and is_wanted(alert, owner, choices.mail))


def _send(alert: Alert, what: What) -> None:
    channels = NotificationChannel.objects.filter(is_enabled=True)
    wanted = [
        each
        for each in channels.select_related("owner__notification_choices")
        if (_is_wanted(each.owner, alert) if each.owner else each.wants(alert))
    ]
    Notification.objects.bulk_create(
        [Notification(alert=alert, channel=each, what=what) for each in wanted],
        ignore_conflicts=True,
    )
