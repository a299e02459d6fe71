"""The API's part in downloads, and answers that are held back until something changes."""

import threading
from functools import partial
from typing import Any

import pytest
from django.test import Client

from servers import events
from servers.models import Box, Download, Job, Role, Run, Server
from servers.models.runs.run import RunState
from tests import factories
from tests.api.conftest import ClientOf
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]

JSON = "application/json"


def ask(client: Client, **given: Any) -> tuple[int, dict[str, Any]]:
    answer = client.post("/api/v1/downloads", given, content_type=JSON)
    return answer.status_code, answer.json()


def test_a_model_is_asked_for_once(client_of: ClientOf, box: Box) -> None:
    operator = client_of(Role.OPERATOR)
    status, said = ask(operator, model="https://huggingface.co/a/b-GGUF", files=["*Q4*"], limit=100)
    assert (status, said["state"], said["model"]) == (201, "waiting", "a/b-GGUF")
    assert said["asked_by"] == "a-operator"
    status, again = ask(operator, model="a/b-GGUF", files=["*Q4*"], box="rtx8")
    assert (status, again["id"]) == (200, said["id"])
    made = Download.objects.get()
    assert (made.patterns, made.limit, made.revision) == (["*Q4*"], 100, "main")
    assert ask(operator, model="a/b:Q4_K_M")[0] == 201
    assert Download.objects.last().patterns == [":Q4_K_M"]  # type: ignore[union-attr]
    assert [each["id"] for each in operator.get("/api/v1/downloads").json()] == [
        row.pk for row in Download.objects.all()
    ]
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"model": "../etc"}, "is not the id of a model"),
        ({"model": "a/b", "revision": "../x"}, "is not the name of a revision"),
        ({"model": "a/b", "box": "none"}, "There is no box none"),
        ({"model": "a/b", "limit": -1}, "limit"),
    ]
    for wrong, words in wrongs:
        status, said = ask(operator, **wrong)
        assert (status, words in said["error"]["message"]) == (422, True), said


def test_the_verbs_say_what_is_wanted(client_of: ClientOf, box: Box) -> None:
    operator, row = client_of(Role.OPERATOR), factories.download(box)
    at = f"/api/v1/downloads/{row.pk}"
    assert operator.post(f"{at}/pause").json()["wanted"] == "paused"
    assert operator.post(f"{at}/resume").json()["wanted"] == "go"
    assert operator.post(f"{at}/limit", {"limit": 7}, content_type=JSON).json()["limit"] == 7
    cancelled = operator.post(f"{at}/cancel", {"delete_parts": True}, content_type=JSON).json()
    assert cancelled["wanted"] == "cancelled"
    row.refresh_from_db()
    assert row.drops_parts
    assert operator.post("/api/v1/downloads/0/pause").status_code == 404


def held(client: Client, address: str) -> tuple[threading.Thread, list[Any]]:
    """A request in a thread of its own, and what it is answered."""
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append(client.get(address).json()))
    thread.start()
    return thread, told


def until_answered(thread: threading.Thread, nudge: Any) -> None:
    """A nudge before anybody listens is heard by nobody, and the row read anew all the same."""

    def is_answered() -> bool:
        nudge()
        thread.join(0.1)
        return not thread.is_alive()

    wait_until(is_answered, "the request is answered", every=0)


def test_an_answer_about_a_download_is_held_back(client_of: ClientOf, box: Box) -> None:
    viewer, row = client_of(Role.VIEWER), factories.download(box)
    at = f"/api/v1/downloads/{row.pk}"
    first = viewer.get(at, {"seen": "something else", "wait": "20"}).json()
    thread, told = held(viewer, f"{at}?wait=20&seen={first['mark'].replace(' ', '%20')}")
    Download.objects.filter(pk=row.pk).update(total=100, done=50, state="downloading")
    until_answered(thread, partial(events.publish_change, "downloads"))
    assert (told[0]["state"], told[0]["percent"]) == ("downloading", 50)


def test_an_answer_about_a_server_is_held_back(client_of: ClientOf, server: Server) -> None:
    viewer = client_of(Role.VIEWER)
    at = f"/api/v1/servers/{server.slug}"
    run = factories.run(server, RunState.STARTING)
    mark = viewer.get(at).json()["mark"].replace(" ", "%20")
    thread, told = held(viewer, f"{at}?wait=20&seen={mark}")
    Run.objects.filter(pk=run.pk).update(state=RunState.READY)
    until_answered(thread, lambda: events.publish_change("server", server.pk))
    assert told[0]["state"] == "ready"
    assert viewer.get(at, {"wait": "0.01", "seen": told[0]["mark"]}).json()["state"] == "ready"
    assert viewer.get("/api/v1/servers/none", {"wait": "1"}).status_code == 404


def test_a_model_is_deleted_unless_something_runs_with_it(
    client_of: ClientOf, box: Box, server: Server
) -> None:
    editor = client_of(Role.EDITOR)
    stored = factories.stored(box, "Qwen/Qwen3-8B", is_hub=True, refs=["main"], path="/hub/s")
    at = "/api/v1/boxes/rtx8/models?path="
    run = factories.run(server)
    refused = editor.delete(f"{at}{stored.path}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "in_use")
    Run.objects.filter(pk=run.pk).update(state=RunState.STOPPED)
    answers = [editor.delete(f"{at}{stored.path}") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert "already" in answers[1].json()["says"]
    assert Job.objects.get().params == {"path": "/hub/s"}
    assert editor.delete(f"{at}/etc/passwd").status_code == 404
