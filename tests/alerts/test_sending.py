"""Messages reach who should get them, once, however often inferdash starts and fails between."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.contexts import alerts as alert_context
from servers.judge.alerts.case import AlertCase
from servers.lifecycle import alerts
from servers.models import Alert, Box, Notification, NotificationChannel
from servers.models.alerts import PATIENCE, What
from servers.watcher.alerts import NotificationSender
from tests import factories, waiting
from tests.alerts.receiver import Receiver, ReceiverResponse, receiver
from tests.alerts.rounds import DIED, HOT, all_due, outlet, raised, send

pytestmark = pytest.mark.django_db(transaction=True)


def events(there: Receiver) -> list[str]:
    return [json.loads(each.body)["event"] for each in there.got]


def test_an_alert_is_sent_once_with_a_link_and_never_again(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)

    send(box)
    all_due()
    send(box)

    [got] = there.got
    said = json.loads(got.body)
    assert said["title"] == "glm-5 on rtx8 died after 3 h"
    assert said["memory"] == "33.1 GiB were not released."
    assert said["url"].endswith("/boxes/rtx8/")
    assert Notification.objects.get().delivered_at
    assert NotificationChannel.objects.get().error == ""


def test_the_same_raised_twice_is_one_alert(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)

    assert alerts.raise_alert(box, DIED) is None
    assert Alert.objects.count() == Notification.objects.count() == 1


def test_what_fails_is_tried_later_and_then_taken_once(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)
    there.answers += [ReceiverResponse(status=500, body=b"oops"), ReceiverResponse(status=502)]

    send(box)
    waiting = Notification.objects.get()
    assert waiting.tries == 1
    assert "oops" in waiting.error
    assert waiting.next_try_at > timezone.now() + timedelta(seconds=20)
    send(box)
    assert len(there.got) == 1, "it is not due yet"

    all_due()
    send(box)
    later = Notification.objects.get()
    assert later.tries == 2
    assert later.next_try_at > timezone.now() + timedelta(seconds=50), "ever more rarely"
    all_due()
    send(box)

    done = Notification.objects.get()
    assert (done.tries, done.error, bool(done.delivered_at)) == (3, "", True)


def test_whoever_takes_one_again_gets_what_waits_at_once(there: Receiver, box: Box) -> None:
    made = outlet(there)
    raised(box)
    there.answers.append(ReceiverResponse(status=503, headers={"Retry-After": "900"}))
    send(box)
    alerts.ask_for_test(made, by=factories.person())
    send(box)
    alert = raised(box, HOT)
    send(box)
    alerts.clear(alert)

    send(box)

    said = ["raised", "test", "raised", "raised"]
    assert events(there) == said, "that it is over waits as before"
    assert Notification.objects.unsent().get().what == What.CLEARED


def test_an_address_that_was_wrong_gets_what_is_still_so_once_it_is_right(
    there: Receiver, box: Box
) -> None:
    made = outlet(there)
    there.answers += [ReceiverResponse(status=404), ReceiverResponse(status=404)]
    raised(box)
    alerts.clear(raised(box, HOT))
    send(box)
    send(box)
    assert Notification.objects.filter(what=What.RAISED).exclude(gave_up_at=None).count() == 2
    assert [each.lost for each in alert_context.list_channels()] == [1]

    alerts.try_again(made)
    assert [each.lost for each in alert_context.list_channels()] == [0]
    send(box)
    send(box)

    assert [json.loads(each.body)["kind"] for each in there.got[2:]] == ["died"]


def test_who_asks_for_a_pause_gets_it(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)
    there.answers.append(ReceiverResponse(status=429, headers={"Retry-After": "900"}))

    send(box)

    assert Notification.objects.get().next_try_at > timezone.now() + timedelta(seconds=850)


def test_what_will_never_be_taken_is_given_up_and_said(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)
    there.answers.append(ReceiverResponse(status=404, body=b"no_team"))

    send(box)
    all_due()
    send(box)

    assert len(there.got) == 1
    gone = Notification.objects.get()
    assert gone.gave_up_at
    assert "no_team" in gone.error
    assert "no_team" in NotificationChannel.objects.get().error
    assert "/hook" not in gone.error, "the address is a secret"


def test_after_a_day_it_is_given_up(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)
    Notification.objects.update(made_at=timezone.now() - PATIENCE - timedelta(minutes=1))
    there.answers.append(ReceiverResponse(status=503))

    send(box)

    assert Notification.objects.get().gave_up_at


def test_two_watchers_send_it_once(there: Receiver, box: Box) -> None:
    other = factories.box("spark-1")
    outlet(there)
    silent = AlertCase(kind="silent", subject="box", severity="critical", title="spark-2 is silent")
    raised(factories.box("spark-2"), silent)
    both = [NotificationSender(box), NotificationSender(other)]

    for each in both:
        each.step()
    for each in both:
        each.finish(waiting.PATIENCE)

    assert events(there) == ["raised"]


def test_one_that_died_in_the_middle_is_followed_later(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)
    assert Notification.objects.get().claim(timezone.now() + alerts.CLAIMED)

    send(box)
    assert there.got == []
    all_due()
    send(box)

    assert events(there) == ["raised"]


def test_another_box_takes_over_what_was_left_lying(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)
    other = factories.box("spark-1")

    send(other)
    assert there.got == [], "its own watcher sends it"
    Notification.objects.update(next_try_at=timezone.now() - alerts.LEFT_LYING * 2)
    send(other)

    assert events(there) == ["raised"]


def test_that_it_is_over_is_told_after_that_it_began(there: Receiver, box: Box) -> None:
    outlet(there)
    alert = raised(box, HOT)
    send(box)

    alerts.clear(alert)
    send(box)
    assert events(there) == ["raised"], "it may come back in a moment"
    all_due()
    send(box)

    assert events(there) == ["raised", "cleared"]
    assert json.loads(there.got[1].body)["until"]


def test_what_comes_back_in_a_moment_was_never_over(there: Receiver, box: Box) -> None:
    outlet(there)
    alert = raised(box, HOT)
    send(box)
    for _time in range(5):
        alerts.clear(alert)
        assert alerts.raise_alert(box, HOT) == alert
    all_due()
    send(box)

    alert.refresh_from_db()
    assert alert.is_open
    assert Alert.objects.count() == 1
    assert events(there) == ["raised"]


def test_what_was_over_before_it_could_be_told_is_told_in_one_message(
    there: Receiver, box: Box
) -> None:
    outlet(there)
    there.answers.append(ReceiverResponse(status=503))
    alert = raised(box, HOT)
    send(box)
    alerts.clear(alert)
    all_due()

    send(box)
    all_due()
    send(box)

    assert events(there) == ["raised", "raised"]
    assert json.loads(there.got[1].body)["until"]
    assert not Notification.objects.unsent().exists()


def test_worse_is_told_and_wants_somebody_again(there: Receiver, box: Box) -> None:
    outlet(there)
    alert = raised(box, HOT)
    alerts.acknowledge(alert, by=factories.person())
    worse = AlertCase(kind="thermal", subject=HOT.subject, severity="critical", title=HOT.title)
    alerts.worsen(alert, worse)
    alerts.worsen(alert, worse)
    send(box)

    alert.refresh_from_db()
    assert alert.acknowledged_at is None
    assert events(there) == ["raised", "worse"]


@pytest.mark.parametrize(
    ("values", "is_sent"),
    [
        ({}, True),
        ({"least": "critical"}, False),
        ({"kinds": ["died", "failed"]}, False),
        ({"kinds": ["thermal"], "least": "warning"}, True),
        ({"is_enabled": False}, False),
        ({"kind": "ping"}, False),
    ],
)
def test_an_outlet_gets_what_it_is_for(
    values: dict[str, Any], is_sent: bool, there: Receiver, box: Box
) -> None:
    outlet(there, **values)
    raised(box, HOT)

    send(box)

    assert bool(there.got) == is_sent


def test_an_outlet_of_one_box_hears_nothing_of_another(there: Receiver, box: Box) -> None:
    outlet(there, box=factories.box("spark-1"))
    raised(box)

    send(box)

    assert there.got == []


def test_one_that_hangs_makes_no_other_wait(there: Receiver, box: Box) -> None:
    with receiver() as slow:
        slow.holds.clear()
        outlet(slow, "A slow one")
        outlet(there)
        raised(box)
        sending = NotificationSender(box)
        sending.step()

        assert there.came.wait(waiting.PATIENCE)
        assert slow.came.wait(waiting.PATIENCE)
        slow.holds.set()
        sending.finish(waiting.PATIENCE)
    assert Notification.objects.unsent().count() == 0


def test_what_is_switched_off_meanwhile_is_not_sent(there: Receiver, box: Box) -> None:
    outlet(there)
    raised(box)
    NotificationChannel.objects.update(is_enabled=False)

    send(box)

    assert there.got == []
    assert Notification.objects.get().gave_up_at


def test_a_test_says_whether_it_arrived(there: Receiver, box: Box) -> None:
    made = outlet(there)
    good = alerts.ask_for_test(made, by=factories.person())
    send(box)
    there.answers.append(ReceiverResponse(status=500))
    bad = alerts.ask_for_test(made, by=factories.person())
    send(box)

    good.refresh_from_db()
    bad.refresh_from_db()
    assert good.delivered_at
    assert bad.gave_up_at, "who has pressed Test waits: it is tried once"
    assert [json.loads(each.body)["event"] for each in there.got] == [What.TEST, What.TEST]


def test_what_is_long_past_is_kept_and_not_sent(there: Receiver, box: Box) -> None:
    outlet(there)
    long_ago = (timezone.now() - timedelta(days=2)).timestamp()
    old = AlertCase(kind="died", subject="glm-5", severity="critical", title="x", began=long_ago)

    alert = raised(box, old)
    send(box)

    assert there.got == []
    assert alert.raised_at.timestamp() == pytest.approx(long_ago)


def test_a_secret_of_another_key_is_said_and_nothing_is_sent(there: Receiver, box: Box) -> None:
    made = outlet(there)
    NotificationChannel.objects.filter(pk=made.pk).update(sealed_address=b"of another key")
    raised(box)

    send(box)

    assert "cannot be read with the key" in Notification.objects.get().error
