"""The pages of alerts and of where they are sent; and the one count of what needs a person."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from servers.contexts.alerts import needs
from servers.models import Alert, AuditEntry, Box, Notification, NotificationChannel, Role
from servers.models.runs.run import RunState
from tests import factories

pytestmark = pytest.mark.django_db

ADDRESS = "https://hooks.slack.example/services/T000/B000/very-secret"


@pytest.fixture
def ada(client: Client) -> Client:
    client.force_login(factories.person())
    return client


def page(client: Client, path: str = "/alerts/", **asked: str) -> str:
    response = client.get(path, asked)
    assert response.status_code == 200
    return response.content.decode()


def bell(client: Client) -> int:
    found = re.search(r'id="bell"[^>]*data-count="(\d+)"', page(client))
    assert found
    return int(found[1])


def post(client: Client, path: str, **data: Any) -> str:
    response = client.post(path, data, follow=True)
    assert response.status_code in (200, 204)
    return response.content.decode()


def test_a_failed_server_and_its_alert_count_once(ada: Client, box: Box) -> None:
    server = factories.server(box, "glm-5")
    run = factories.run(server, RunState.FAILED, failure="It fell over.")
    assert bell(ada) == 1

    about = {"server": server, "run": run, "server_name": "glm-5"}
    alert = factories.alert(box, **about)
    assert bell(ada) == 1
    assert page(ada).count("glm-5 on rtx8 died") == 2, "its title, and its button's name"

    assert ada.post(f"/alerts/{alert.pk}/acknowledge/").status_code == 204
    assert bell(ada) == 0
    assert "ada acknowledged it" in page(ada)
    assert (
        "glm-5" not in re.findall(r'<section id="attention".*?</section>', page(ada, "/"), re.S)[0]
    )


def test_what_only_an_alert_tells_needs_somebody_too(ada: Client, box: Box) -> None:
    hot = factories.alert(
        box,
        kind="thermal",
        subject="thermal:GPU-1",
        severity="warning",
        title="rtx8: GPU 1 is too hot",
        server_name="",
    )
    [notice] = needs.attention([box], {"rtx8": None})

    assert (notice.about, notice.slug, notice.what) == ("box", "rtx8", "GPU 1 is too hot")
    assert (notice.level, notice.alert) == ("attention", hot.pk)


def test_two_alerts_of_one_box_and_what_is_seen_there_count_each_once(box: Box) -> None:
    Box.objects.update(facts={"problems": [{"what": "Docker cannot be used", "fix": "Start it."}]})
    box.refresh_from_db()
    factories.alert(box, kind="box", subject="Docker cannot be used", server_name="")
    factories.alert(box, kind="leaked", subject="GPU-1", server_name="")

    notices = needs.attention([box], {"rtx8": None})

    assert [notice.kind for notice in notices] == ["leaked", "box"]


def test_an_alert_is_acknowledged_once_and_the_trail_says_by_whom(ada: Client, box: Box) -> None:
    alert = factories.alert(box)
    for _press in range(2):
        ada.post(f"/alerts/{alert.pk}/acknowledge/")

    alert.refresh_from_db()
    assert str(alert.acknowledged_by) == "ada"
    assert [each.action for each in AuditEntry.objects.all()] == ["acknowledge alert"]


def test_a_viewer_sees_alerts_without_buttons(client: Client, box: Box) -> None:
    factories.alert(box)
    client.force_login(factories.person("lin", Role.VIEWER))

    said = page(client)

    assert "glm-5 on rtx8 died after 3 h" in said
    assert "Acknowledge" not in said
    assert "Notification channels" not in said


def test_what_is_over_is_kept_and_found_by_box_and_kind(ada: Client, box: Box) -> None:
    now = timezone.now()
    factories.alert(box, cleared_at=now, title="rtx8 one")
    factories.alert(factories.box("spark-1"), kind="disk", cleared_at=now, title="spark one")

    assert "No open alerts." in page(ada)
    assert "rtx8 one" in page(ada)
    assert "spark one" not in page(ada, box="rtx8")
    assert "rtx8 one" not in page(ada, kind="disk")
    assert "None like this" in page(ada, box="rtx8", kind="disk")
    assert "rtx8 one" in page(ada, page="nonsense")


def test_an_address_goes_in_and_never_comes_out(ada: Client) -> None:
    values = {"name": "Team", "kind": "slack", "address": ADDRESS, "least": "info"}
    said = post(
        ada, "/settings/notifications/add/", **values, is_enabled="on", kinds=["died", "disk"]
    )

    made = NotificationChannel.objects.get()
    assert (made.address, made.hint, made.kinds) == (
        ADDRESS,
        "hooks.slack.example",
        ["died", "disk"],
    )
    assert b"very-secret" not in bytes(made.sealed_address)
    shown = said + page(ada, f"/settings/notifications/{made.pk}/") + page(ada, "/activity/")
    assert "very-secret" not in shown
    assert "hooks.slack.example" in shown


def test_a_change_leaves_the_address_where_none_is_typed(ada: Client) -> None:
    made = factories.outlet("Team", ADDRESS, kind="slack")
    values = {"name": "Everybody", "kind": "slack", "least": "critical"}
    post(ada, f"/settings/notifications/{made.pk}/", **values)

    made.refresh_from_db()
    assert (made.name, made.least, made.is_enabled) == ("Everybody", "critical", False)
    assert made.address == ADDRESS
    said = post(ada, f"/settings/notifications/{made.pk}/", **values | {"kind": "discord"})
    assert "Write where to send it." in said, "the address of another kind is another one"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"address": ""}, "Write where to send it."),
        ({"address": "hooks.slack.com/x"}, "with https://"),
        ({"address": "http://169.254.169.254/latest/"}, "clouds keep credentials"),
        ({"kind": "ping"}, "Choose the box"),
        ({"kind": "ntfy", "key": "schlüssel"}, "letters and digits only"),
        ({"kind": "email", "address": "ada"}, "ada is no mail address"),
        ({"kind": "email", "address": "ada@example.org"}, "INFERDASH_EMAIL_URL"),
        ({"name": "Team"}, "already exists"),
    ],
)
def test_what_cannot_be_sent_to_is_said_beside_its_field(
    values: dict[str, str], said: str, ada: Client
) -> None:
    factories.outlet("Team")
    known = {"name": "New", "kind": "json", "address": ADDRESS, "least": "info"}

    assert said in post(ada, "/settings/notifications/add/", **known | values)
    assert NotificationChannel.objects.count() == 1


def test_test_makes_a_message_for_a_watcher_and_the_trail_says_so(ada: Client, box: Box) -> None:
    made = factories.outlet()

    post(ada, f"/settings/notifications/{made.pk}/test/")

    assert Notification.objects.get().what == "test"
    assert "on its way" in page(ada, "/settings/notifications/")
    assert AuditEntry.objects.get().action == "test notification channel"


def test_what_was_not_taken_is_told_and_sent_when_the_address_is_changed(
    ada: Client, box: Box
) -> None:
    made = factories.outlet("Team", ADDRESS, kind="slack")
    now = timezone.now()
    for at in ({"gave_up_at": now}, {"next_try_at": now + timedelta(minutes=45), "tries": 7}):
        subject = str(at)
        alert = factories.alert(box, subject=subject)
        Notification.objects.create(alert=alert, channel=made, what="raised", error="no", **at)
    told = " ".join(re.sub(r"<[^>]+>", " ", page(ada, "/settings/notifications/")).split())
    assert "1 message waits, tried again in 44 min" in told
    assert "1 message was given up: it is sent when you correct the address" in told

    values = {"name": "Team", "kind": "slack", "least": "info", "is_enabled": "on"}
    post(ada, f"/settings/notifications/{made.pk}/", **values)
    assert Notification.objects.filter(next_try_at__lte=timezone.now()).count() == 1
    post(ada, f"/settings/notifications/{made.pk}/", **values, address=f"{ADDRESS}/2")

    due = Notification.objects.unsent().filter(next_try_at__lte=timezone.now())
    assert due.count() == 2


def test_a_deleted_outlet_takes_what_waits_with_it(ada: Client, box: Box) -> None:
    made = factories.outlet()
    Notification.objects.create(alert=factories.alert(box), channel=made, what="raised")

    assert "is deleted" in post(ada, f"/settings/notifications/{made.pk}/delete/")

    assert not Notification.objects.exists()
    assert Alert.objects.exists()
