"""Alerts by mail, and the signs of life that a box gives."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.models import Box, Notification
from servers.watcher.alerts import NotificationSender
from tests import factories
from tests.alerts.receiver import Receiver, postbox
from tests.alerts.rounds import HOT, outlet, raised, send
from tests.waiting import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_mail_reaches_everybody_named(box: Box, settings: Any) -> None:
    with postbox() as post:
        settings.MAILERS = mailer(post.port)
        settings.DEFAULT_FROM_EMAIL = "inferdash@rtx8.lan"
        factories.outlet("Mail", "ada@example.org, grace@example.org", kind="email")
        raised(box)
        send(box)

    assert post.recipients == ["ada@example.org", "grace@example.org"]
    [letter] = post.letters
    assert "Subject: glm-5 on rtx8 died after 3 h" in letter
    assert "From: inferdash@rtx8.lan" in letter
    assert "33.1 GiB were not released." in letter
    assert "/boxes/rtx8/" in letter


def test_a_mail_server_that_refuses_is_quoted(box: Box, settings: Any) -> None:
    with postbox() as post:
        settings.MAILERS = mailer(post.port)
        settings.DEFAULT_FROM_EMAIL = "inferdash@rtx8.lan"
        factories.outlet("Mail", "nobody@example.org", kind="email")
        post.refuses = "550 no such person"
        raised(box)
        send(box)
        refused = Notification.objects.get()
        assert refused.gave_up_at
        assert "takes no mail for this address" in refused.error

        post.refuses = "451 try later"
        alert = raised(box, HOT)
        send(box)
        later = alert.notifications.get()
        assert later.gave_up_at is None
        assert later.next_try_at > timezone.now()


def test_mail_without_a_mail_server_says_what_is_missing(box: Box, settings: Any) -> None:
    settings.DEFAULT_FROM_EMAIL = ""
    factories.outlet("Mail", "ada@example.org", kind="email")
    raised(box)

    send(box)

    assert "INFERDASH_EMAIL_URL" in Notification.objects.get().error


def mailer(port: int) -> dict[str, Any]:
    backend = "django.core.mail.backends.smtp.EmailBackend"
    return {"default": {"BACKEND": backend, "OPTIONS": {"host": "127.0.0.1", "port": port}}}


def test_a_sign_of_life_is_given_every_minute_and_not_by_a_box_that_is_silent(
    there: Receiver, box: Box
) -> None:
    made = outlet(there, kind="ping", box=box)
    outlet(there, "Of another box", kind="ping", box=factories.box("spark-1"))
    sending = NotificationSender(box)
    sending.step()
    sending.finish(PATIENCE)
    sending.step()
    sending.finish(PATIENCE)

    assert [(each.method, each.path) for each in there.got] == [("GET", "/hook")]
    made.refresh_from_db()
    assert made.delivered_at

    Box.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    send(box)
    assert len(there.got) == 1
