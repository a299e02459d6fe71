"""The list of servers: its groups and favourites, actions on several, what happened lately."""

import re
from typing import Any

import pytest
from django.test import Client

from servers.models import AuditEntry, Box, Role, Run, Server
from servers.models.runs.run import DesiredState, RunState
from tests import factories


@pytest.fixture
def box(own_redis: None, db: None, monkeypatch: pytest.MonkeyPatch) -> Box:
    monkeypatch.setattr("servers.tasks.nudge", lambda run: None)
    monkeypatch.setattr("servers.tasks.look_at_mounts", lambda context: None)
    return factories.box(gpus=8)


@pytest.fixture
def ada(box: Box) -> Client:
    return factories.log_in(factories.person())


def names(client: Client) -> list[str]:
    return re.findall(r'data-name="([^"]+)"', client.get("/servers/").content.decode())


def words(client: Client, path: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", client.get(path).content.decode()).split())


def test_servers_stand_in_groups_after_ones_favourites(box: Box, ada: Client) -> None:
    made = {
        name: factories.server(box, name, gpus="0")
        for name in ("asleep", "failed", "idle", "loads", "pulls", "ready", "stopped", "sick")
    }
    factories.run(made["failed"], RunState.FAILED)
    factories.run(made["loads"], RunState.STARTING)
    factories.run(made["pulls"], RunState.QUEUED)
    factories.run(made["ready"])
    factories.run(made["asleep"], sleep="asleep")
    factories.run(made["stopped"], RunState.STOPPED)
    factories.run(made["sick"], unhealthy_since=made["sick"].created_at, unhealthy_because="x")
    order = ["failed", "sick", "loads", "pulls", "asleep", "ready", "idle", "stopped"]
    assert names(ada) == order
    page = words(ada, "/servers/")
    assert "All 8 Failed 1 Unhealthy 1 Starting 2 Ready 2 Stopped 2" in page

    vera = factories.log_in(factories.person("vera", Role.VIEWER))
    for name in ("stopped", "ready"):
        assert vera.post(f"/servers/{name}/favourite/", {"is": "yes"}).status_code == 204

    assert names(vera)[:3] == ["ready", "stopped", "failed"]
    assert names(ada) == order, "they are hers alone"
    vera.post("/servers/stopped/favourite/", {"is": "no"})
    assert names(vera)[:2] == ["ready", "failed"]


def act(client: Client, verb: str, *servers: str) -> Any:
    return client.post("/bulk/servers/", {"verb": verb, "server": servers})


def test_several_are_started_and_each_refusal_is_named(box: Box, ada: Client) -> None:
    for name, gpus in (("one", "1"), ("two", "2"), ("up", "3"), ("asks", "4")):
        factories.server(box, name, gpus=gpus)
    factories.run(Server.objects.get(slug="up"))
    factories.claim(box, factories.person("ben"), 4)

    said = act(ada, "start", "one", "two", "up", "asks", "nobody")

    text = said.content.decode()
    assert said.status_code == 200
    assert text.startswith("2 servers are being started.")
    assert "up: it runs already." in text
    assert "asks: its start has a question, so start it by itself." in text
    started = Run.objects.filter(state=RunState.QUEUED).values_list("server__slug", flat=True)
    assert sorted(started) == ["one", "two"]


def test_several_are_stopped_but_not_what_others_use(box: Box, ada: Client) -> None:
    for name in ("mine", "theirs", "off"):
        factories.server(box, name)
    mine = factories.run(Server.objects.get(slug="mine"), requests_running=0)
    theirs = factories.run(
        Server.objects.get(slug="theirs"),
        requests_running=2,
        started_by=factories.person("ben"),
    )

    said = act(ada, "stop", "mine", "theirs", "off")

    text = said.content.decode()
    assert text == (
        "mine is being stopped. off: it does not run. "
        "theirs: others may use it, so stop it by itself."
    )
    mine.refresh_from_db()
    theirs.refresh_from_db()
    assert mine.wanted != DesiredState.RUNNING
    assert theirs.wanted == DesiredState.RUNNING
    refused = act(ada, "stop", "theirs")
    assert (refused.status_code, refused.content.decode()[:21]) == (409, "Nothing was changed. ")
    assert act(ada, "burn", "mine").status_code == 409
    assert act(ada, "start").status_code == 409


def test_what_happened_lately_is_told_as_far_as_one_may_see_it(box: Box, ada: Client) -> None:
    ben = factories.person("ben", Role.OPERATOR)
    server = factories.server(box, "glm-5")
    AuditEntry.note(ben, "start", server)
    AuditEntry.note(ben, "make key", "laptop")
    for _each in range(10):
        AuditEntry.note(None, "stop", "gone")

    said = ada.get("/").content.decode().split('id="recent"')[1].split("</section>")[0]
    assert said.count("<li>") == 8
    AuditEntry.objects.filter(subject="gone").delete()
    told = words(ada, "/")
    assert "ben made key laptop" in told
    assert "ben started glm-5" in told

    theirs = words(factories.log_in(ben), "/")
    assert "ben started glm-5" in theirs
    assert "laptop" not in theirs
