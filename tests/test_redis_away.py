import logging
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import Client

from servers import live
from servers.live import messages, store
from tests import factories


@pytest.fixture(autouse=True)
def _no_redis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> None:
    gone = redis.Redis(unix_socket_path=f"{tmp_path}/none.sock")
    monkeypatch.setattr(store, "client", gone)
    messages._away.clear()


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/", "/boxes/rtx8/", "/boxes/rtx8/history.json"])
def test_pages_stay_while_redis_is_away(client: Client, path: str) -> None:
    factories.server(factories.box("rtx8"))
    client.force_login(factories.person())

    assert client.get(path).status_code == 200


@pytest.mark.takes(30)
def test_an_outage_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            live.wake_watcher("rtx8")

    assert [record.getMessage() for record in caplog.records if "away" in record.message] == [
        caplog.records[0].getMessage()
    ]
