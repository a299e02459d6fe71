"""The page of the gateway: the lines to copy, what is ready, who has asked what."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from servers.contexts import pages
from servers.models import Key, Request, Role, Run, Server, User
from servers.models.runs.run import RunState
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> User:
    return User.objects.create(username="ada", role=Role.OPERATOR)


@pytest.fixture
def client(ada: User, own_redis: object) -> Client:
    return factories.log_in(ada)


def text_of(client: Client, query: str = "") -> str:
    answer = client.get(f"/gateway/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def asked(person: User, **values: Any) -> Request:
    usual = {
        "at": timezone.now(), "path": "/v1/chat/completions", "status": 200, "duration": 2.5,
        "model": "coder", "server": "coder-1", "person": person, "first": 0.25,
    }  # fmt: skip
    return Request.objects.create(**{**usual, **values})


def test_a_new_installation_says_what_to_do(client: Client) -> None:
    said = text_of(client)

    assert "No server yet" in said
    assert "No requests from programs yet" in said
    assert "http://testserver/v1" in said


def test_the_lines_name_what_is_ready(client: Client) -> None:
    server = factories.server(factories.box(settings.BOX), "qwen3-8b")
    assert server.profile.current is not None
    Run.objects.create(
        server=server, version=server.profile.current, state=RunState.READY, address="127.0.0.1",
        port=8000, served_name="Qwen3",
    )  # fmt: skip
    server.run = Run.objects.get()
    server.save()
    factories.server(server.box, "glm-5")
    models = client.get("/gateway/").context["models"]
    said = text_of(client)

    assert "&quot;model&quot;: &quot;<span data-model>Qwen3</span>&quot;" in said
    assert "export ANTHROPIC_BASE_URL=http://testserver\n" in said
    assert "OPENAI_API_BASE_URL=http://testserver/v1\n" in said
    assert [(row.server, row.state, row.is_ready) for row in models] == [
        ("qwen3-8b", "ready", True), ("glm-5", "stopped", False),
    ]  # fmt: skip
    assert models[0].names == ("Qwen3", "qwen3-8b", "Qwen/Qwen3-8B")
    assert '<th scope="row"><code>Qwen3</code>' in said


def test_models_say_their_context_and_what_they_take(client: Client) -> None:
    box = factories.box(settings.BOX)
    tools = ("--tool-call-parser=hermes", "--enable-auto-tool-choice")
    factories.server(
        box, "thinks", model="gpt-oss-120b",
        flags=("--max-model-len=32k", "--reasoning-parser=qwen3", *tools),
    )  # fmt: skip
    factories.server(box, "plain", model="gpt-oss-120b", flags=())
    factories.server(factories.box("elsewhere"), "far", model="gpt-oss-120b", flags=())

    rows = {row.server: row for row in client.get("/gateway/").context["models"]}

    assert (rows["thinks"].context, rows["thinks"].capabilities) == (32_000, ("tools", "reasoning"))
    assert (rows["plain"].context, rows["plain"].capabilities) == (None, ())
    assert (rows["far"].state, rows["far"].says) == ("stopped", "not reachable from here")


def offered(said: str) -> dict[str, list[str]]:
    """The names to test with, by what stands above them."""
    groups = re.findall(r'<optgroup label="([^"]+)"[^>]*>(.*?)</optgroup>', said, re.DOTALL)
    return {label: re.findall(r"<option[^>]*>([^<]+)</option>", found) for label, found in groups}


def test_the_lines_are_tested_with_what_is_ready_or_a_request_starts(client: Client) -> None:
    box = factories.box(settings.BOX)
    assert "No model to ask" in text_of(client)
    factories.server(box, "stays-off")
    factories.server(box, "on-demand", start_on_request=True, aliases=("quick",))
    server = factories.server(box, "qwen3-8b")
    factories.run(server, RunState.READY, served_name="Qwen3", port=8000)
    said = text_of(client)

    assert offered(said) == {
        "qwen3-8b, ready": ["Qwen3", "qwen3-8b"],
        "on-demand, a request starts it": ["on-demand", "quick"],
    }
    assert '<input id="use-key" type="password"' in said
    assert 'name="' not in said.partition('id="use-key"')[2].partition(">")[0]


@pytest.mark.parametrize("may", [Role.OPERATOR, Role.VIEWER])
def test_a_new_key_is_tested_where_it_is_shown(client: Client, may: Role) -> None:
    said = client.post(
        "/keys/", {"name": "laptop", "role": may.value, "lives": 30}
    ).content.decode()

    assert ("export ANTHROPIC_BASE_URL=http://testserver\n" in said) == (may == Role.OPERATOR)
    assert ('data-key="#token"' in said) == (may == Role.OPERATOR)
    assert "use-key" not in client.get("/keys/").content.decode()


def test_requests_are_listed_summed_and_found(client: Client, ada: User) -> None:
    key, _token = Key.make(ada, "nightly", Role.OPERATOR, expires_at=None)
    asked(ada, key=key, prompt_tokens=1200, cached_tokens=1000, completion_tokens=50)
    asked(ada, prompt_tokens=100, completion_tokens=None)
    asked(ada, status=503, model="glm", error="glm-5 is starting.", server="glm-5", first=None)
    asked(ada, cancelled=True, model="<b>", at=timezone.now() - timedelta(days=2))
    said = text_of(client, "requests/")

    assert "nightly" in said
    assert "1000 cached" in said
    assert "glm-5 is starting." in said
    assert "cancelled by client" in said
    assert "<b>" not in said
    assert "glm-5 is starting" in text_of(client, "requests/?q=503")
    assert "nightly" not in text_of(client, "requests/?q=glm")
    assert "No request matches “nobody”" in text_of(client, "requests/?q=nobody")
    assert client.get("/gateway/?q=503").headers["Location"] == "/gateway/requests/?q=503"


def test_an_open_page_is_told_of_new_requests_and_a_filtered_one_is_left_alone(
    client: Client, ada: User
) -> None:
    asked(ada, model="just-now")
    keys: set[tuple[str, int | None]] = {("requests", None)}

    for page in ("gateway", "requests"):
        assert "just-now" in pages.render(keys, ada, page=page)
    ada.role = Role.VIEWER
    for page in ("gateway", "requests"):
        assert "just-now" not in pages.render(keys, ada, page=page)
    assert "/ws/live/?page=gateway" in text_of(client)
    assert "/ws/live/?page=requests" in text_of(client, "requests/")
    assert "/ws/live/?page=requests" not in text_of(client, "requests/?q=just")


def test_an_open_page_looks_again_when_other_names_may_be_asked_for(
    client: Client, ada: User
) -> None:
    server = factories.server(factories.box(settings.BOX), "coder")
    marks = [mark_of(text_of(client))]

    run = factories.run(server, RunState.STARTING, served_name="Qwen3", port=8000)
    marks.append(told(ada, server.pk))
    Run.objects.filter(pk=run.pk).update(state=RunState.READY)
    marks.append(told(ada, server.pk))
    Server.objects.filter(pk=server.pk).update(held_back_by=ada)
    marks.append(told(ada, server.pk))

    assert len(set(marks)) == 4
    assert told(ada, server.pk) == marks[-1] == mark_of(text_of(client))
    assert "names-mark" not in pages.render({("box", server.box_id)}, ada, page="gateway")
    ada.role = Role.VIEWER
    assert "names-mark" not in pages.render({("server", server.pk)}, ada, page="gateway")


def told(person: User, server: int) -> str:
    return mark_of(pages.render({("server", server)}, person, page="gateway"))


def mark_of(said: str) -> str:
    return str(re.findall(r'data-names="([^"]+)"', said)[0])
