import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import StreamingHttpResponse
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import timezone

from servers.forms.conversation import CHAT_LIMIT, PARAMETERS, AskError, read_chat
from servers.gateway import calls
from servers.gateway.routes import PASSING
from servers.launch.engines.launch import Launch
from servers.lifecycle.runs import starts
from servers.models import (
    ActiveUser,
    AuditEntry,
    Box,
    Profile,
    Request,
    Role,
    Run,
    RunHealth,
    Secret,
    Server,
    User,
)
from servers.models.runs.run import DesiredState, RunState, Sleep
from servers.views.gateway import chat as views
from tests import factories
from tests.cases import table
from tests.scripted_engine import MODEL, ScriptedEngine
from tests.waiting import PATIENCE, wait_until_async


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as engine:
        yield engine


@pytest.fixture
def run(db: None, engine: ScriptedEngine) -> Run:
    box, _made = Box.objects.get_or_create(slug=settings.BOX)
    profile = Profile.objects.create(slug="tiny", name="Tiny")
    launch = Launch(engine="vllm", image="image", checkpoint="checkpoint")
    version = profile.save_version(launch, by=None)
    server = Server.objects.create(slug="tiny", profile=profile, box=box)
    server.run = Run.objects.create(
        server=server,
        version=version,
        state=RunState.READY,
        address="127.0.0.1",
        port=engine.port,
        served_name=MODEL,
    )
    server.save()
    return server.run


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada", role=Role.OPERATOR)


def asked(**body: Any) -> bytes:
    return json.dumps({"run": 1, "messages": [{"role": "user", "content": "Hi"}]} | body).encode()


def test_a_question_becomes_the_engines_request() -> None:
    ask = read_chat(asked(params={"temperature": 0.5, "seed": 3, "max_tokens": None}))

    assert ask.body("qwen") == {
        "model": "qwen",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "seed": 3,
    }


def test_half_a_character_stops_no_conversation() -> None:
    ask = read_chat(asked(messages=[{"role": "user", "content": "cut \ud83d"}]))

    assert ask.messages == [{"role": "user", "content": "cut ?"}]


@table(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b'{"run": NaN}', "not JSON"),
        (b"[]", "names no server"),
        (asked(run="http://10.0.0.1/"), "names no server"),
        (asked(run=True), "names no server"),
        (asked(messages=[]), "no message"),
        (asked(messages=[{"role": "user", "content": "x"}] * 2001), "2000 is the limit"),
        (asked(messages=[{"role": "root", "content": "x"}]), "the assistant's"),
        (asked(params=[]), "JSON object"),
        (asked(params={"temperature": 3}), "Temperature must be a number from 0 to 2"),
        (asked(params={"temperature": True}), "Temperature"),
        (asked(params={"top_p": "1"}), "Top-p"),
        (asked(params={"max_tokens": 0}), "Max tokens must be a whole number of 1 or more"),
    ],
)
def test_a_question_that_cannot_be_sent_says_why(body: bytes, said: str) -> None:
    with pytest.raises(AskError, match=said):
        read_chat(body)


@pytest.mark.parametrize(
    "name", ["model", "messages", "stream", "n", "bootstrap_host", "lora_path", "extra_body"]
)
def test_only_known_parameters_reach_an_engine(name: str) -> None:
    assert name not in PARAMETERS
    with pytest.raises(AskError, match=f"“{name}” is not a parameter"):
        read_chat(asked(params={name: "x"}))


async def post(person: User, body: bytes) -> StreamingHttpResponse:
    client = AsyncClient()
    await client.aforce_login(person)
    response: object = await client.post(
        reverse("chat_completions"), data=body, content_type="application/json"
    )
    assert isinstance(response, StreamingHttpResponse)
    assert response["Content-Type"] == "text/event-stream"
    assert response["X-Accel-Buffering"] == "no"
    return response


def scripted(run_id: int, **script: Any) -> bytes:
    script.setdefault("deltas", [{"content": "Hello"}])
    return asked(run=run_id, messages=[{"role": "user", "content": json.dumps(script)}])


async def complete(person: User, run_id: int, **script: Any) -> str:
    return await whole(await post(person, scripted(run_id, **script)))


async def whole(response: StreamingHttpResponse) -> str:
    return b"".join([piece async for piece in response]).decode()


def error_in(text: str) -> str:
    name, data = text.strip().split("\n\n")[-1].split("\n")
    assert name == "event: error"
    return str(json.loads(data.removeprefix("data: "))["message"])


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_the_engines_events_pass_through_untouched(
    run: Run, ada: User, engine: ScriptedEngine
) -> None:
    text = await complete(ada, run.pk)

    assert '"Hello"' in text
    assert text.endswith("data: [DONE]\n\n")
    assert engine.requests[-1]["model"] == MODEL
    served = await Run.objects.select_related("health").aget(pk=run.pk)
    assert served.health.last_request_at is not None


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_a_long_wait_for_the_first_token_is_kept_alive(
    run: Run, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "HEARTBEAT", 0.05)

    text = await complete(ada, run.pk, first_delay=0.3)

    assert "\n\n: the engine has not begun to answer\n\n" in text
    assert text.endswith("data: [DONE]\n\n")


async def wakes(run: Run, **trouble: Any) -> None:
    """What its box does once somebody wants it awake."""
    wanted = Run.objects.filter(wake_wanted_at__isnull=False)
    await wait_until_async(wanted.aexists, "somebody wants it awake")
    sleep = Sleep.ASLEEP if trouble else Sleep.AWAKE
    await RunHealth.objects.filter(run=run.pk).aupdate(sleep_info=trouble)
    await Run.objects.filter(pk=run.pk).aupdate(sleep=sleep)


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("own_redis")
async def test_a_question_wakes_an_engine_that_sleeps(
    run: Run, ada: User, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "HEARTBEAT", 0.001)
    monkeypatch.setattr(calls, "LOOKED_AT", 0.1)
    await Run.objects.filter(pk=run.pk).aupdate(sleep=Sleep.ASLEEP)

    text, _woken = await asyncio.gather(complete(ada, run.pk), wakes(run))

    assert "\n\n: the engine wakes up\n\n" in text
    assert '"Hello"' in text
    assert text.endswith("data: [DONE]\n\n")

    await Run.objects.filter(pk=run.pk).aupdate(sleep=Sleep.ASLEEP, wake_wanted_at=None)
    trouble = {"trouble": "tiny sleeps and could not be woken.", "trouble_at": 4e9}
    text, _failed = await asyncio.gather(complete(ada, run.pk), wakes(run, **trouble))
    assert error_in(text) == "tiny sleeps and could not be woken."
    assert len(engine.requests) == 1
    last = await Request.objects.order_by("pk").alast()
    assert last is not None
    assert (last.status, last.error) == (503, "tiny sleeps and could not be woken.")


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_who_uses_a_run_is_noted_once(run: Run, ada: User) -> None:
    await complete(ada, run.pk)
    await complete(ada, run.pk)

    noted = [entry async for entry in AuditEntry.objects.filter(action="chat")]
    assert [(entry.by_id, entry.subject) for entry in noted] == [(ada.pk, "tiny")]


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_what_is_asked_stands_beside_what_programs_ask(run: Run, ada: User) -> None:
    await complete(ada, run.pk)
    await complete(ada, run.pk, status=400, error={"error": {"message": "too long"}})
    await complete(ada, run.pk, then="drop", delay=0.05)
    await Run.objects.filter(pk=run.pk).aupdate(state=RunState.STARTING)
    await complete(ada, run.pk)

    rows = [row async for row in Request.objects.order_by("pk")]
    assert [row.status for row in rows] == [200, 400, 502, 503]
    assert {(row.person_id, row.key_id, row.server, row.what) for row in rows} == {
        (ada.pk, None, "tiny", "chat/completions")
    }
    assert rows[0].completion_tokens == 1
    assert rows[0].first is not None
    assert "too long" in rows[1].error
    assert "starting" in rows[3].error
    assert PASSING[run.pk] == 0


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_who_hangs_up_is_said_to_have(run: Run, ada: User, engine: ScriptedEngine) -> None:
    answer = asyncio.create_task(whole(await post(ada, scripted(run.pk, then="hang"))))
    await asyncio.to_thread(engine.arrived.get, timeout=PATIENCE)
    assert PASSING[run.pk] == 1

    answer.cancel()  # as Django does for whoever is gone
    with pytest.raises(asyncio.CancelledError):
        await answer

    assert (await Request.objects.aget()).cancelled
    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_what_arrived_comes_before_the_error(run: Run, ada: User) -> None:
    text = await complete(ada, run.pk, then="drop", delay=0.05)

    assert '"Hello"' in text
    assert "lost in the middle" in error_in(text)


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_a_server_that_is_stopped_in_mid_answer_is_named_as_the_reason(
    run: Run, ada: User, engine: ScriptedEngine
) -> None:
    await Run.objects.filter(pk=run.pk).aupdate(stopped_by=ada)

    def stop() -> None:
        Run.objects.filter(pk=run.pk).update(wanted=DesiredState.STOPPED)

    text = ""
    deltas = [{"content": "Hello"}] * 2
    async for piece in await post(ada, scripted(run.pk, deltas=deltas, hold=1, then="drop")):
        if not text:
            await sync_to_async(stop)()
            engine.go_on()
        text += piece.decode()

    assert error_in(text).startswith("tiny was told to stop by ada.")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"state": RunState.STARTING}, "tiny is starting. Try again a little later"),
        ({"state": RunState.FAILED}, "tiny is not running. Start it on its page"),
        ({"wanted": DesiredState.DRAINED}, "tiny was told to stop"),
        ({"port": None}, "nobody knows its port"),
    ],
)
@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_only_a_ready_run_is_asked(
    run: Run, ada: User, engine: ScriptedEngine, change: dict[str, Any], said: str
) -> None:
    await Run.objects.filter(pk=run.pk).aupdate(**change)

    assert said in error_in(await complete(ada, run.pk))
    assert engine.requests == []


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_a_run_on_another_box_is_not_asked_at_its_own_address(
    run: Run, ada: User, engine: ScriptedEngine
) -> None:
    await Box.objects.filter(slug=settings.BOX).aupdate(slug="far-away")

    assert "far-away" in error_in(await complete(ada, run.pk))
    assert engine.requests == []


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_a_run_that_is_gone_is_said(ada: User) -> None:
    assert "was removed" in error_in(await complete(ada, 999))


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_a_conversation_that_is_too_large_is_said(run: Run, ada: User) -> None:
    message = {"role": "user", "content": "x" * CHAT_LIMIT}

    response = await post(ada, asked(run=run.pk, messages=[message]))

    assert "larger than" in error_in(await whole(response))


def test_viewers_may_not_chat(run: Run) -> None:
    client = factories.log_in(User.objects.create_user("eve", role=Role.VIEWER))

    assert client.get(reverse("chat")).status_code == 403
    assert client.post(reverse("chat_completions")).status_code == 403


def test_a_post_from_another_site_is_refused(run: Run, ada: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)

    assert client.post(reverse("chat_completions")).status_code == 403


def test_the_page_lists_servers_without_running_their_names(run: Run, ada: User) -> None:
    Run.objects.filter(pk=run.pk).update(served_name='"><script>x</script>')
    client = factories.log_in(ada)

    page = client.get(reverse("chat"), {"server": '"><script>y</script>'}).content.decode()

    assert f'data-run="{run.pk}"' in page
    assert 'data-state="ready"' in page
    assert "<script>x" not in page
    assert "<script>y" not in page


@pytest.mark.parametrize(
    ("launch", "key"),
    [
        ({}, ""),
        ({"flags": ("--api-key", "sk-flag")}, "sk-flag"),
        ({"env": {"VLLM_API_KEY": "sk-env"}}, "sk-env"),
    ],
)
def test_the_endpoint_carries_the_engines_key(run: Run, launch: dict[str, Any], key: str) -> None:
    spec = Launch(engine="vllm", image="image", checkpoint="checkpoint", **launch)
    run.version = run.server.profile.save_version(spec, by=None)

    endpoint = starts.find_endpoint(run)
    assert endpoint is not None
    assert endpoint.key == key


def test_a_secret_key_is_revealed_to_the_endpoint_only(run: Run, ada: User) -> None:
    secret = Secret.seal("VLLM_API_KEY", "sk-sealed", by=ada)
    spec = Launch(engine="vllm", image="i", checkpoint="c", secret_env={"VLLM_API_KEY": secret.pk})
    run.version = run.server.profile.save_version(spec, by=ada)

    endpoint = starts.find_endpoint(run)
    assert endpoint is not None
    assert endpoint.key == "sk-sealed"
    assert "sk-sealed" not in repr(endpoint)


def test_a_chat_notes_who_uses_a_run_once_a_person(run: Run, ada: User) -> None:
    lin = User.objects.create(username="lin", role=Role.OPERATOR)
    endpoint = starts.find_endpoint(run)
    assert endpoint is not None
    target = views.ChatTarget(
        run_id=run.pk, server="tiny", model=MODEL, engine="vllm", endpoint=endpoint,
        server_id=run.server_id, wakes_within=None,
    )  # fmt: skip
    for person in (lin, ada, lin):
        views._note(target, person)

    assert [use.by for use in ActiveUser.objects.lately()] == [lin, ada]
    ActiveUser.objects.filter(by=lin).update(at=timezone.now() - timedelta(minutes=16))
    assert [use.by for use in ActiveUser.objects.lately()] == [ada]
