import logging
from pathlib import Path
from typing import Any

import pytest
import redis.retry
from django.test import Client

from servers import events
from servers.state import store
from tests import factories


@pytest.fixture(autouse=True)
def _no_redis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> None:
    gone = store.connect(f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(store, "client", gone)
    store._away.clear()


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Those that redis-py makes before it tries again."""
    made: list[float] = []
    monkeypatch.setattr(redis.retry, "sleep", made.append)
    return made


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/boxes/rtx8/", "/boxes/rtx8/history.json"])
def test_pages_stay_and_wait_for_nothing_while_redis_is_away(
    client: Client, path: str, pauses: list[float]
) -> None:
    factories.server(factories.box("rtx8"))
    client.force_login(factories.person())

    assert client.get(path).status_code == 200
    assert pauses == []


def test_an_outage_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            events.wake_watcher("rtx8", events.Topic.RUNS)

    assert [record.getMessage() for record in caplog.records if "away" in record.message] == [
        caplog.records[0].getMessage()
    ]
