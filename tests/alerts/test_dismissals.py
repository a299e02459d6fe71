"""Notices that a person dismisses: for whom, and until when."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from servers.models import Alert, Box, Dismissal, Role
from servers.models.runs.run import RunState
from tests import factories


@pytest.fixture
def box(own_redis: None, db: None) -> Box:
    return factories.box()


def marks(client: Client) -> list[str]:
    return re.findall(r'data-mark="([^"]+)"', client.get("/").content.decode())


def count(client: Client) -> int:
    found = re.search(r'id="bell"[^>]*data-count="(\d+)"', client.get("/servers/").content.decode())
    assert found
    return int(found[1])


def test_a_failure_is_dismissed_by_one_person_until_the_next(box: Box) -> None:
    ada = factories.log_in(factories.person())
    vera = factories.log_in(factories.person("vera", Role.VIEWER))
    server = factories.server(box)
    factories.run(server, RunState.FAILED, failure="It fell over.")
    (mark,) = marks(vera)

    assert vera.post("/alerts/dismiss/", {"mark": mark}).status_code == 204

    assert (marks(vera), count(vera)) == ([], 0)
    assert (marks(ada), count(ada)) == ([mark], 1)
    factories.run(server, RunState.FAILED, failure="It fell over.")
    (other,) = marks(vera)
    assert other != mark
    vera.post("/alerts/dismiss/", {"mark": other})
    assert list(Dismissal.objects.values_list("mark", flat=True)) == [other], "the old is forgotten"


def test_what_a_box_lacks_stays_dismissed_until_its_alert_is_raised_anew(box: Box) -> None:
    ada = factories.log_in(factories.person())
    what = "Docker cannot be used"
    Box.objects.update(facts={"problems": [{"what": what, "fix": "Start it."}]})
    (mark,) = marks(ada)
    ada.post("/alerts/dismiss/", {"mark": mark})
    assert marks(ada) == []

    alert = factories.alert(box, kind="box", subject=what, title=f"{box}: {what}")
    assert marks(ada) == [], "its alert is raised a little later"

    Alert.objects.filter(pk=alert.pk).update(raised_at=timezone.now() + timedelta(hours=1))
    assert marks(ada) == [mark]


def test_only_what_is_there_can_be_dismissed(box: Box) -> None:
    ada = factories.log_in(factories.person())

    assert ada.post("/alerts/dismiss/", {"mark": "x" * 1000}).status_code == 204

    assert not Dismissal.objects.exists()
