"""Alerts, raised, worse, over, acknowledged, and the notification channels that they are sent to."""

import logging
import smtplib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.core import mail
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from servers import events
from servers.host import alerts
from servers.host.alerts import AlertMessage, WebhookError
from servers.judge.alerts.case import AGAIN, COMES_BACK, ENDS, AlertCase
from servers.models import (
    Alert,
    AuditEntry,
    Box,
    Notification,
    NotificationChannel,
    NotificationChoices,
    Run,
    User,
)
from servers.models.alerts import PATIENCE, ChannelKind, What, is_wanted
from servers.models.people.key import SecretError, mask

log = logging.getLogger(__name__)

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


# Seconds before the second, third, … try; the last holds for all that follow.
BACK_OFF = (30, 60, 120, 300, 600, 1800, 3600)
# Longer than any try takes: whoever died in the middle of one is followed after this.
CLAIMED = timedelta(minutes=3)
# What another box's watcher has left lying for so long is taken over.
LEFT_LYING = timedelta(minutes=5)
NO_MAIL = (
    "This box has no mail server: INFERDASH_EMAIL_URL in its .env says which one sends (see "
    "docs/alerts.md)."
)


def due(box: Box) -> QuerySet[Notification]:
    """What this box's watcher is to send now, the oldest first."""
    now = timezone.now()
    # A box that is silent is told of by the others.
    mine = Q(alert__box=box) | Q(alert__kind="silent") | Q(alert=None, channel__box=None)
    mine |= Q(alert=None, channel__box=box) | Q(next_try_at__lt=now - LEFT_LYING)
    if settings.WIRE == "hub":
        # Boxes that have joined know no addresses.
        mine |= Q(alert__box__link__joined_at__isnull=False)
        mine |= Q(channel__box__link__joined_at__isnull=False)
    found = Notification.objects.unsent().filter(mine, next_try_at__lte=now)
    return found.select_related("alert__box", "channel").order_by("pk")


def send(notification: Notification, box: Box) -> bool:
    """Try once. False when another try is due later; also when somebody else sends it."""
    now = timezone.now()
    if not notification.claim(now + CLAIMED):
        return False
    channel = notification.channel
    if said := _obstacle(notification):
        _give_up(notification, said)
        return True
    if _waits_for_first(notification):
        later = now + timedelta(seconds=BACK_OFF[0])
        Notification.objects.filter(pk=notification.pk).update(next_try_at=later)
        return True
    try:
        deliver(channel, message(notification, box))
    except WebhookError as error:
        return _note_failure(notification, error)
    at = timezone.now()
    done = Notification.objects.filter(alert=notification.alert, channel=channel)
    done = done.filter(pk=notification.pk) if notification.alert is None else done
    whats = [notification.what]
    if (
        notification.alert is not None
        and notification.alert.cleared_at
        and notification.what == What.RAISED
    ):
        whats.append(What.CLEARED)  # it said so itself
    done.unsent().filter(what__in=whats).update(delivered_at=at, error="")
    NotificationChannel.objects.filter(pk=channel.pk).update(tried_at=at, delivered_at=at, error="")
    _hurry(channel)
    events.publish_change("alerts")
    return True


def _hurry(channel: NotificationChannel) -> None:
    """It takes messages: have it sent what it did not take before, some of it an hour from now."""
    now = timezone.now()
    # What is due sooner may be with another watcher this moment.
    failed = channel.notifications.unsent().filter(next_try_at__gt=now + CLAIMED).exclude(error="")
    failed.update(next_try_at=now)


def try_again(channel: NotificationChannel) -> None:
    """Its address is another one now: send there what was not taken and is still so."""
    now = timezone.now()
    channel.notifications.recently_given_up().update(
        gave_up_at=None, made_at=now, next_try_at=now, tries=0
    )
    _hurry(channel)
    for box in Box.objects.all():
        events.wake_watcher(box.slug, events.Topic.ALERTS)


def deliver(channel: NotificationChannel, told: AlertMessage) -> None:
    """Raises WebhookError, whose text does not hold the channel's address."""
    address = ""
    try:
        address = channel.address
        if channel.kind == ChannelKind.EMAIL:
            _mail(address, told)
        elif channel.kind == ChannelKind.PING:
            alerts.ping(address)
        else:
            now = timezone.now().timestamp()
            made = alerts.build_payload(channel.kind, told, key=channel.key, now=now)
            alerts.post(address, made.body, made.headers)
    except SecretError as error:
        raise WebhookError(str(error), may_pass=False) from error
    except WebhookError as error:
        said = mask(str(error), [address])
        raise WebhookError(said, may_pass=error.may_pass, wait=error.wait) from error


def ping(channel: NotificationChannel) -> None:
    """Tell an address that misses this box that it is there."""
    now = timezone.now()
    said = ""
    try:
        deliver(channel, _test(channel.box))
    except WebhookError as error:
        said = str(error)
    same = NotificationChannel.objects.filter(pk=channel.pk)
    same.update(tried_at=now, error=said, **({} if said else {"delivered_at": now}))
    if said != channel.error or not channel.tried_at:
        events.publish_change("alerts")


def ask_for_test(channel: NotificationChannel, *, by: User) -> Notification:
    """Have a message sent that only says that it works."""
    made = Notification.objects.create(channel=channel, what=What.TEST, asked_by=by)
    for box in Box.objects.filter(pk=channel.box_id) if channel.box_id else Box.objects.all():
        events.wake_watcher(box.slug, events.Topic.ALERTS)
    events.publish_change("alerts")
    return made


def message(notification: Notification, box: Box) -> AlertMessage:
    alert = notification.alert
    if alert is None:
        return _test(box)
    # Of a server that is over, the advice has made room for what ended it.
    is_over = alert.kind in ENDS and not alert.is_open
    return AlertMessage(
        id=f"{settings.INSTALL[:8]}-{alert.pk}",
        event=notification.what,
        kind=alert.kind,
        severity=alert.severity,
        title=alert.title,
        detail=" ".join(filter(None, (alert.advice, alert.detail))) if is_over else alert.detail,
        memory=alert.memory,
        advice="" if is_over else alert.advice,
        box=alert.box.slug,
        server=alert.server_name,
        checkpoint=alert.checkpoint,
        since=_moment(alert.raised_at),
        # What happened at one moment is not over: it was never there.
        until=_moment(alert.cleared_at)
        if alert.cleared_at and alert.cleared_at != alert.raised_at
        else None,
        url=settings.PUBLIC_URL + alert.get_absolute_url(),
    )


def _test(box: Box | None) -> AlertMessage:
    name = box.slug if box else settings.BOX
    return AlertMessage(
        id=f"{settings.INSTALL[:8]}-test",
        event=What.TEST,
        kind="test",
        severity="info",
        title=f"Test from {name}: alerts of inferdash arrive here",
        detail="Somebody has pressed Test. Nothing has happened.",
        box=name,
        since=_moment(timezone.now()),
        url=settings.PUBLIC_URL + reverse("alerts"),
    )


def _moment(at: datetime) -> str:
    return timezone.localtime(at).isoformat(timespec="seconds")


def _obstacle(notification: Notification) -> str:
    if notification.what != What.TEST and not notification.channel.is_enabled:
        return "It was switched off meanwhile."
    if notification.what == What.CLEARED:
        first = _first(notification)
        if first is not None and first.gave_up_at:
            return "Nobody was told that it began."
    return ""


def _waits_for_first(notification: Notification) -> bool:
    first = _first(notification) if notification.what != What.TEST else None
    return first is not None and first.pk != notification.pk and not first.is_over


def _first(notification: Notification) -> Notification | None:
    same = Notification.objects.filter(alert=notification.alert, channel=notification.channel)
    return same.filter(what=What.RAISED).first()


def _note_failure(notification: Notification, error: WebhookError) -> bool:
    now = timezone.now()
    said = str(error)
    NotificationChannel.objects.filter(pk=notification.channel_id).update(tried_at=now, error=said)
    is_test = notification.what == What.TEST
    # Who has pressed Test sits there and waits.
    if is_test or not error.may_pass or now - notification.made_at > PATIENCE:
        _give_up(notification, said)
        return True
    pause = BACK_OFF[min(notification.tries, len(BACK_OFF) - 1)]
    later = now + timedelta(seconds=max(pause, error.wait or 0))
    Notification.objects.filter(pk=notification.pk).update(next_try_at=later, error=said)
    log.warning("An alert waits for %s: %s", notification.channel, said)
    events.publish_change("alerts")
    return False


def _give_up(notification: Notification, said: str) -> None:
    Notification.objects.filter(pk=notification.pk).update(gave_up_at=timezone.now(), error=said)
    log.warning("An alert does not reach %s: %s", notification.channel, said)
    events.publish_change("alerts")


def _mail(recipients: str, told: AlertMessage) -> None:
    if not settings.DEFAULT_FROM_EMAIL:
        raise WebhookError(NO_MAIL, may_pass=False)
    letter = mail.EmailMessage(
        subject=" ".join(told.headline.split())[:250],
        body=told.text,
        to=[each.strip() for each in recipients.split(",")],
        headers={"Auto-Submitted": "auto-generated"},
    )
    try:
        letter.send()
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _words in error.recipients.values()]
        words = "The mail server takes no mail for this address."
        raise WebhookError(words, may_pass=all(code < 500 for code in codes)) from error
    except smtplib.SMTPResponseException as error:
        text = (
            error.smtp_error.decode(errors="replace")
            if isinstance(error.smtp_error, bytes)
            else error.smtp_error
        )
        words = f"The mail server answered {error.smtp_code}: {text}"
        raise WebhookError(words, may_pass=error.smtp_code < 500) from error
    except (smtplib.SMTPException, OSError) as error:
        words = f"The mail server cannot be used: {error}."
        raise WebhookError(words, may_pass=True) from error


def choose(person: User, *, browser: Sequence[str], mail: Sequence[str], address: str) -> None:
    """Keep the choice. Mail goes through a channel of the person's own, as to every channel."""
    with transaction.atomic():
        NotificationChoices.objects.update_or_create(
            person=person,
            defaults={"browser": list(browser), "mail": list(mail), "address": address},
        )
        channel = NotificationChannel.objects.filter(owner=person).first()
        if mail and address:
            channel = channel or NotificationChannel(
                owner=person,
                created_by=person,
                kind=ChannelKind.EMAIL,
                name=f"mail of person {person.pk}",
            )
            channel.keep(address, "", "")
            channel.error = ""
            channel.save()
        elif channel is not None:
            channel.delete()
        AuditEntry.note(person, "change notifications", person)
