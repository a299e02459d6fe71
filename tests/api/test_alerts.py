"""The list of alerts, by what programs filter it by."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from servers.models import Alert, Box, Role
from tests import factories
from tests.api.conftest import ClientOf
from tests.cases import Cases

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


def test_alerts_are_listed_by_box_kind_and_whether_they_are_over(
    client_of: ClientOf, box: Box
) -> None:
    other = Box.objects.create(slug="spark")
    server = factories.server(other)
    run = factories.run(server)
    now = timezone.now()

    def make(on: Box, kind: str, minutes: int, **values: Any) -> int:
        at = now - timedelta(minutes=minutes)
        made = Alert.objects.create(
            box=on, kind=kind, severity="warning", title=f"{on} {kind}", raised_at=at, **values
        )
        return made.pk

    over = make(box, "disk", 9, cleared_at=now)
    here = make(box, "thermal", 7)
    far = make(other, "died", 5, server=server, run=run, acknowledged_by=factories.person())
    full = make(other, "disk", 3)
    client = client_of(Role.VIEWER)

    def list_alerts(asked: str) -> list[int]:
        return [each["id"] for each in client.get(f"/api/v1/alerts{asked}").json()]

    with Cases() as cases:
        for asked, expected in {
            "": [full, far, here, over],
            "?box=spark": [full, far],
            "?box=rtx8": [here, over],
            "?box=none": [],
            "?kind=disk": [full, over],
            "?kind=disk&box=rtx8": [over],
            "?is_open=true&box=rtx8": [here],
            "?is_open=false": [over],
            f"?before={far}": [here, over],
        }.items():
            with cases.named(asked):
                assert list_alerts(asked) == expected
    [said] = client.get("/api/v1/alerts?kind=died").json()
    assert (said["box"], said["server"], said["run"]) == ("spark", "qwen3-8b", run.pk)
    assert said["acknowledged_by"] == str(factories.person())
    assert said["cleared_at"] is None
    with CaptureQueriesContext(connection) as few:
        client.get("/api/v1/alerts?kind=died")
    with CaptureQueriesContext(connection) as many:
        client.get("/api/v1/alerts")
    assert len(few) == len(many), "no query an alert"
