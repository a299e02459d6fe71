"""A box's history marks its alerts, and reaches to this moment."""

import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from servers.judge.memory import history
from servers.models import Box
from servers.state.samples import keep_recent, read_recent
from servers.watcher.memory.monitor import HistoryRecorder
from tests import factories, past, samples

pytestmark = pytest.mark.django_db


def points(box: Box, **asked: Any) -> dict[str, Any]:
    client = factories.log_in(factories.person())
    response = client.get(f"/boxes/{box.slug}/history/points.json", asked)
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def test_alerts_of_the_range_are_told_with_their_ends(box: Box) -> None:
    now = timezone.now()
    factories.alert(box, raised_at=now - timedelta(minutes=50), cleared_at=now)
    factories.alert(box, kind="disk", raised_at=now - timedelta(days=3), title="rtx8: full")
    factories.alert(
        box, kind="ready", raised_at=now - timedelta(days=3), cleared_at=now - timedelta(days=2)
    )
    factories.alert(factories.box("spark-1"))

    found = points(box)["alerts"]

    assert [(each["title"], each["end"] is None) for each in found] == [
        ("glm-5 on rtx8 died after 3 h", False),
        ("rtx8: full", True),
    ]


def test_the_newest_seconds_are_shown_before_they_are_stored(box: Box) -> None:
    now = int(time.time())
    past.fill(box, now - 90, gpus=2, kept={1: 300, 10: 600, 60: 1200, 600: 7200})
    seen = {past.key(gpu): {now - 3: {"util": 40 + gpu * 20, "used": 1024}} for gpu in (0, 1)}
    keep_recent(box.slug, history.pack(seen))

    both = points(box, **{"from": now - 60, "to": now + 1})
    one = points(box, **{"from": now - 60, "to": now + 1, "gpu": past.key(1)})
    long_ago = points(box, **{"from": now - 7200, "to": now - 3600})

    at = both["t"].index(now - 3)
    assert (both["columns"]["util"][at], both["columns"]["used"][at]) == (50, 2048)
    assert one["columns"]["util"][at] == 60
    assert long_ago["t"][-1] < now - 3600


@pytest.mark.django_db(transaction=True)
def test_the_watcher_shows_the_minute_that_goes_on(box: Box) -> None:
    sample = samples.sample([samples.card(0, [])], [])
    HistoryRecorder(box).see(sample)

    body = read_recent(box.slug)

    assert body is not None
    [times] = history.unpack(body).values()
    assert list(times) == [int(sample["t"])]
