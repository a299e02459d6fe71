"""What a person wants to be told of: in the browser, by a socket of its own, and by mail."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.utils import timezone

from servers import events
from servers.contexts import alerts as alert_context
from servers.lifecycle import alerts
from servers.lifecycle.alerts import choose
from servers.models import (
    Alert,
    AuditEntry,
    Box,
    NotificationChannel,
    NotificationChoices,
    Role,
    Run,
    User,
)
from servers.models.runs.run import RunState
from tests import factories
from tests.alerts.receiver import postbox
from tests.alerts.rounds import DIED, HOT, raised, send
from tests.alerts.test_mail import mailer
from tests.websocket import Socket, session_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ada(box: Box) -> User:
    return factories.person("ada")


def told(person: User) -> list[str]:
    return [each.title for each in alert_context.list_notices(person)]


def happen(box: Box, ada: User) -> None:
    """An alert of each sort: of one's own server, another's, of the box, and of another box."""
    now = timezone.now()
    for name, by in (("mine", ada), ("theirs", factories.person("grace"))):
        server = factories.server(box, name)
        run = factories.run(server, RunState.FAILED, started_by=by)
        about: dict[str, Any] = {"server": server, "run": run, "subject": name, "told_at": now}
        factories.alert(box, title=f"{name} died", severity="warning", **about)
        factories.alert(box, title=f"{name} slow", kind="ready", severity="info", **about)
    factories.alert(box, kind="floor", title="rtx8 full", told_at=now)
    factories.alert(
        factories.box("spark-1"), kind="disk", title="spark disk", severity="warning", told_at=now
    )


CHOICES: list[tuple[list[str], set[str]]] = [
    ([], set()),
    (["starts"], {"mine slow"}),
    (["failures"], {"mine died"}),
    (["critical"], {"rtx8 full"}),
    (["box:spark-1"], {"spark disk"}),
    (["box:rtx8"], {"mine died", "mine slow", "theirs died", "theirs slow", "rtx8 full"}),
    (["box:gone", "failures", "critical"], {"mine died", "rtx8 full"}),
]


def test_each_is_told_what_they_have_chosen(box: Box, ada: User) -> None:
    happen(box, ada)
    seen = {}
    for topics, _titles in CHOICES:
        choose(ada, browser=topics, mail=[], address="")
        seen[tuple(topics)] = set(told(ada))

    assert seen == {tuple(topics): titles for topics, titles in CHOICES}


def test_without_a_choice_one_is_told_of_ones_own_starts(box: Box, ada: User) -> None:
    ready = factories.run(factories.server(box, "glm-5"), RunState.READY, started_by=ada, age=100)
    Run.objects.filter(pk=ready.pk).write(ready_at=timezone.now())
    [notice] = alert_context.list_notices(ada)
    assert (notice.title, notice.url) == ("glm-5 is ready", "/servers/glm-5/")
    assert notice.text.startswith("On rtx8, after ")

    # The alert of a long start says the same: one notice.
    factories.alert(box, kind="ready", run=ready, severity="info", told_at=timezone.now())
    assert len(alert_context.list_notices(ada)) == 1
    assert told(factories.person("grace")) == []

    Run.objects.filter(pk=ready.pk).write(ready_at=timezone.now() - timedelta(minutes=11))
    Alert.objects.update(told_at=timezone.now() - timedelta(minutes=11))
    assert told(ada) == [], "it is no news any more"


def test_what_is_worse_is_news_again_and_what_is_over_is_none(box: Box, ada: User) -> None:
    choose(ada, browser=["box:rtx8"], mail=[], address="")
    alert = raised(box, HOT)
    [first] = alert_context.list_notices(ada)
    Alert.objects.update(told_at=timezone.now() - timedelta(hours=1))
    assert alert_context.list_notices(ada) == []

    critical = replace(HOT, severity="critical")
    alerts.worsen(alert, critical)
    [again] = alert_context.list_notices(ada)
    assert again.id != first.id

    alert.refresh_from_db()
    alerts.clear(alert)
    assert alert_context.list_notices(ada) == []


def test_mail_goes_to_who_chose_it_and_stops_with_them(box: Box, ada: User, settings: Any) -> None:
    settings.DEFAULT_FROM_EMAIL = "inferdash@rtx8.lan"
    client = factories.log_in(ada)
    said = client.post("/settings/mine/", {"browser": [], "mail": ["critical"], "address": ""})
    assert "Write where mail should go." in said.content.decode()
    assert not NotificationChoices.objects.exists()
    typed = {"browser": ["starts"], "mail": ["critical"], "address": "ada@example.org"}
    said = client.post("/settings/mine/", typed, follow=True)
    assert "Your notifications are saved." in said.content.decode()
    assert AuditEntry.objects.get().action == "change notifications"

    # It is nobody's but hers: admins neither see nor change it.
    channel = NotificationChannel.objects.get()
    assert channel.owner == ada
    assert "No channel yet." in client.get("/settings/notifications/").content.decode()
    assert client.get(f"/settings/notifications/{channel.pk}/").status_code == 404

    with postbox() as post:
        settings.MAILERS = mailer(post.port)
        raised(box, HOT)
        send(box)
        assert post.letters == [], "it is no critical one"
        raised(box)
        send(box)
        assert post.recipients == ["ada@example.org"]
        User.objects.filter(pk=ada.pk).update(role=Role.CHAT)
        raised(box, replace(DIED, subject="other"))
        send(box)
        assert len(post.letters) == 1, "alerts are not for chat users"

    User.objects.filter(pk=ada.pk).update(role=Role.VIEWER)
    client.post("/settings/mine/", {"mail": [], "address": "ada@example.org"})
    assert not NotificationChannel.objects.exists()


def test_without_a_mail_server_nothing_of_mail_is_shown(ada: User, settings: Any) -> None:
    settings.DEFAULT_FROM_EMAIL = ""
    page = factories.log_in(ada).get("/settings/").content.decode()
    assert "Every alert of rtx8: in the browser" in page
    assert "by mail" not in page
    chat = factories.log_in(factories.person("cleo", Role.CHAT))
    assert "Notify me of" not in chat.get("/settings/").content.decode()


@pytest.mark.asyncio
async def test_the_socket_sends_all_that_is_news_whenever_it_changes(box: Box, ada: User) -> None:
    await sync_to_async(choose)(ada, browser=["box:rtx8"], mail=[], address="")
    socket = Socket("/ws/notices/", session=await session_of(ada))
    assert await socket.open()
    assert json.loads((await socket.hear())["text"]) == {"notices": []}

    await sync_to_async(raised)(box, HOT)

    [notice] = json.loads((await socket.hear())["text"])["notices"]
    assert notice["title"] == "rtx8: GPU 1 is hot"
    assert notice["url"] == "/boxes/rtx8/"

    await User.objects.filter(pk=ada.pk).aupdate(is_active=False)
    await sync_to_async(events.publish_person_change)(ada.pk)
    assert await socket.hear_close() == 4401
