"""What the relay of a box lets the hub through to."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as live
from django.db import OperationalError

from servers.host.links.files import WireFiles
from servers.lifecycle.links import reach
from servers.models.runs.run import RunState
from tests import factories
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).parents[2]


@pytest.mark.django_db
def test_it_is_where_this_boxes_runs_and_monitored_engines_are() -> None:
    here = factories.box(live.BOX)
    factories.run(factories.server(here, "serves"), address="172.18.0.2", port=8000)
    factories.run(factories.server(here, "ended"), RunState.STOPPED, address="172.18.0.3", port=1)
    watched = factories.server(here, "watched")
    watched.watches = {"command": "vllm serve"}
    watched.save()
    factories.external_run(watched, address="::1", port=8001)
    factories.run(factories.server(factories.box("far"), "far"), address="10.0.0.9", port=22)

    assert reach.list_places() == {("172.18.0.2", 8000), ("::1", 8001)}


@pytest.mark.asyncio
async def test_a_new_engine_is_found_at_once_and_an_outage_forgets_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places: set[tuple[str, int]] = {("10.0.0.1", 1)}
    looks = 0

    def look() -> frozenset[tuple[str, int]]:
        nonlocal looks
        looks += 1
        if is_away:
            raise OperationalError("it is away")
        return frozenset(places)

    is_away = False
    monkeypatch.setattr(reach, "_look", look)
    monkeypatch.setattr(reach, "LOOK_AGAIN", 0.0)
    known = reach.EnginePlaces()

    assert [await known.allows("10.0.0.1", 1) for _ in range(5)] == [True] * 5
    assert looks == 1
    places.add(("10.0.0.1", 2))
    assert await known.allows("10.0.0.1", 2)
    assert looks == 2
    is_away = True
    assert not await known.allows("10.0.0.1", 3)
    assert await known.allows("10.0.0.1", 2)
    monkeypatch.setattr(reach, "KEPT", 0.0)
    assert not await known.allows("10.0.0.1", 2)
    monkeypatch.setattr(reach, "LOOK_AGAIN", 60.0)
    before = looks
    for _ in range(5):
        assert not await known.allows("10.0.0.1", 3)
    assert looks == before, "who asks for anything makes no load of it"


def test_the_command_takes_the_secret_of_its_file_as_it_is_now(short_path: Path) -> None:
    files = WireFiles(short_path)
    files.folder.mkdir()
    environment = os.environ | {
        "INFERDASH_DATA": str(short_path), "INFERDASH_WIRE": "box", "DATABASE_URL": "",
    }  # fmt: skip
    program = [sys.executable, "manage.py", "relay"]
    with subprocess.Popen(program, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as relay:
        try:
            wait_until(files.relay_socket.exists, "it listens")

            def answer(secret: str) -> str:
                with socket.socket(socket.AF_UNIX) as hub:
                    hub.settimeout(PATIENCE)
                    hub.connect(str(files.relay_socket))
                    said = f"CONNECT 10.0.0.1:1 HTTP/1.1\r\nInferdash-Relay: {secret}\r\n\r\n"
                    hub.sendall(said.encode())
                    return hub.recv(4096).decode().split()[1]

            assert answer("first") == "403"
            for secret in ("first", "another"):
                files.relay_secret.write_text(f"{secret}\n")
                assert answer(secret) == "404"
            assert answer("first") == "403"
        finally:
            relay.send_signal(signal.SIGTERM)
        assert relay.wait(PATIENCE) == 0
