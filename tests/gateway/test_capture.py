"""Prompts and answers: kept while an admin has switched that on, and at no other moment."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.conf import settings
from django.utils import timezone

from servers.gateway import Gateway, capture
from servers.host.http import connections
from servers.models import Capture, CapturedCall, Key, Request, Role, User
from servers.models.people.key import MASK
from servers.models.runs.run import RunState
from tests import factories
from tests.gateway.test_gateway import CHAT, ask
from tests.scripted_engine import EngineScript, ScriptedEngine

TOKEN = "hf_" + "a1B2" * 9
pytestmark = pytest.mark.asyncio


class CapturingProgram:
    """Asks the gateway as an ASGI server passes requests on."""

    def __init__(self, token: str) -> None:
        self.gateway = Gateway(others=lambda *_: None)  # type: ignore[arg-type]
        self._headers = [(b"authorization", f"Bearer {token}".encode())]

    async def ask(
        self, said: Any, path: str = CHAT, *, leaves_after: bytes = b"\0", method: str = "POST"
    ) -> "CapturedAnswer":
        """`leaves_after`: hangs up when it has heard that."""
        body = said if isinstance(said, bytes) else json.dumps(said).encode()
        answer, gone = CapturedAnswer(), asyncio.Event()
        incoming = [{"type": "http.request", "body": body}]

        async def receive() -> Any:
            if incoming:
                return incoming.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            answer.take(message)
            if leaves_after in answer.body or not message.get("more_body", True):
                gone.set()

        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": b"", "headers": self._headers, "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8484),
        }  # fmt: skip
        await asyncio.wait_for(self.gateway(scope, receive, send), 60)
        return answer


class CapturedAnswer:
    def __init__(self) -> None:
        self.status, self.body = 0, b""
        self.headers: dict[bytes, bytes] = {}

    def take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body += message.get("body", b"")

    @property
    def told(self) -> str:
        return self.headers.get(capture.HEADER, b"").decode()


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine() as engine:
        yield engine


@pytest.fixture
def ada(transactional_db: None, own_redis: object) -> User:
    return factories.person("ada", Role.ADMIN)


@pytest_asyncio.fixture
async def program(ada: User, engine: ScriptedEngine) -> AsyncIterator[CapturingProgram]:
    def made() -> str:
        server = factories.server(factories.box(settings.BOX), "tiny")
        server.run = factories.run(
            server, RunState.READY, address="127.0.0.1", port=engine.port, served_name="tiny-qwen"
        )
        server.save()
        return Key.make(ada, "chat program", Role.OPERATOR, expires_at=None, only_asks=True)[1]

    yield CapturingProgram(await sync_to_async(made)())
    await connections.forget(asyncio.get_running_loop())


async def on(by: User, **values: Any) -> Capture:
    return await sync_to_async(factories.capture)(by, **values)


async def kept() -> list[CapturedCall]:
    def found() -> list[CapturedCall]:
        return list(CapturedCall.objects.for_table())

    return await sync_to_async(found)()


def at(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    """From now on it is that late."""
    monkeypatch.setattr(timezone, "now", lambda: moment)


async def test_a_stream_is_kept_as_its_text_with_who_asked_and_passed_on_as_ever(
    program: CapturingProgram, ada: User, engine: ScriptedEngine
) -> None:
    # The token comes in two pieces, which are none.
    pieces = [{"content": f"It is {TOKEN[:20]}"}, {"content": f"{TOKEN[20:]}, Zoë."}]
    engine.plan = lambda _body: EngineScript(deltas=pieces)
    said = ask("hello", user=TOKEN)
    off = await program.ask(said)
    assert (off.told, await kept()) == ("", [])

    until = datetime.fromisoformat("2126-11-22T14:30:00Z")
    switched = await on(ada, until=until)
    program.gateway.captures = capture.Captures()
    answer = await program.ask(said)

    assert answer.body == off.body
    assert answer.told == "until=2126-11-22T14:30:00Z"
    (found,) = await kept()
    assert (found.capture_id, found.answered) == (switched.pk, f"It is hf_{MASK}, Zoë.")
    assert json.loads(found.asked)["user"] == f"hf_{MASK}"
    assert json.loads(found.asked)["model"] == "tiny-qwen"
    assert (found.asked_left_out, found.answered_left_out) == (0, 0)
    request = found.request
    assert (request.person, request.server, request.model) == (ada, "tiny", "tiny-qwen")
    assert (request.key and request.key.name, request.status) == ("chat program", 200)
    switched = await Capture.objects.aget()
    assert (switched.exchanges, switched.size) == (1, found.size)

    models = await program.ask(b"", "/v1/models", method="GET")
    assert (models.status, models.told) == (200, "")
    missing = await program.ask(ask("hello", model="nobody"))
    assert (missing.status, missing.told) == (404, ""), "nobody has been asked anything"
    assert len(await kept()) == 1


async def test_answers_in_one_piece_long_ones_pictures_and_sound(
    program: CapturingProgram, ada: User, engine: ScriptedEngine
) -> None:
    await on(ada)
    whole = {"choices": [{"message": {"content": "Zoë"}}]}
    script = {"deltas": [], "content_type": "application/json", "error": whole}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "aB3/" * 999}}
    asked = ask(script, pictures=[picture])
    await program.ask(asked)
    (found,) = await kept()
    assert json.loads(found.answered) == whole
    url = json.loads(found.asked)["pictures"][0]["image_url"]["url"]
    assert url == "data:image/png;base64,… (3996 characters are not kept)"
    assert json.loads(found.asked)["messages"] == asked["messages"]

    engine.answers["/v1/embeddings"] = (200, json.dumps({"data": [{"embedding": [0.5] * 9000}]}))
    await program.ask({"model": "tiny", "input": "word " * capture.MOST}, "/v1/embeddings")
    found = (await kept())[0]
    assert len(found.asked) == capture.MOST
    assert found.asked_left_out > capture.MOST
    assert "characters are not kept)]" in found.answered
    assert found.answered_left_out == 0

    long = {"deltas": [{"content": "y" * 100_000}] * 4}
    answer = await program.ask(ask(long))
    found = (await kept())[0]
    assert answer.body.count(b"y" * 100_000) == 4
    assert found.answered == "y" * 200_000
    assert found.answered_left_out == 200_000

    sound = {"deltas": [], "content_type": "audio/mpeg", "error": "\0\1\2"}
    await program.ask(ask(sound))
    found = (await kept())[0]
    assert (found.answered, found.answered_left_out) == ("", 3)

    deep = b'{"model": "tiny", "input": ' + b"[" * 300 + b"1," * 90_000 + b"1" + b"]" * 300 + b"}"
    await program.ask(deep, "/v1/embeddings")
    assert len((await kept())[0].asked) <= capture.MOST

    too_large = await program.ask(b" " * (64 * 2**20 + 1))
    assert (too_large.status, too_large.told) == (413, "")
    assert len(await kept()) == 5


async def test_what_breaks_off_is_kept_as_far_as_it_came(
    program: CapturingProgram, ada: User
) -> None:
    await on(ada)
    dies = await program.ask(ask({"deltas": [{"content": "half"}], "then": "drop"}))
    assert b"engine_lost" in dies.body
    (found,) = await kept()
    assert (found.answered, found.request.status) == ("half", 502)
    assert "hung up in the middle" in found.request.error

    hangs = {"deltas": [{"content": "one"}], "then": "hang"}
    answer = await program.ask(ask(hangs), leaves_after=b'"one"')
    assert answer.told, "it is told before the answer is whole"
    found = (await kept())[0]
    assert (found.answered, found.request.cancelled) == ("one", True)


async def test_it_ends_by_its_time_and_when_an_admin_ends_it(
    program: CapturingProgram, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    switched = await on(ada, until=now + timedelta(minutes=15))
    monkeypatch.setattr(capture, "REMEMBERED", 3600.0)  # else a second, in which it counts
    assert (await program.ask(ask("hello"))).told

    at(monkeypatch, now + timedelta(minutes=15))
    assert not (await program.ask(ask("hello"))).told
    assert len(await kept()) == 1

    # What is being answered when it ends is not kept: nothing is once it is over.
    at(monkeypatch, now + timedelta(minutes=14))
    hangs = ask({"deltas": [{"content": "one"}], "then": "hang"})
    late = asyncio.create_task(program.ask(hangs, leaves_after=b'"one"'))
    await sync_to_async(Capture.objects.end)(switched, ada)
    assert (await late).told
    assert len(await kept()) == 1
    program.gateway.captures = capture.Captures()
    assert not (await program.ask(ask("hello"))).told


async def test_of_one_server_alone(program: CapturingProgram, ada: User) -> None:
    await on(ada, only="glm-5")
    assert not (await program.ask(ask("hello"))).told
    assert await kept() == []

    await Capture.objects.aupdate(only="tiny")
    program.gateway.captures = capture.Captures()
    assert (await program.ask(ask("hello"))).told  # by the engine's name, which is another
    assert len(await kept()) == 1


async def test_requests_that_nobody_keeps_do_not_each_look_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []

    def look() -> list[capture.CaptureSwitch]:
        looks.append(1)
        return []

    monkeypatch.setattr(capture, "_look", look)
    monkeypatch.setattr(capture, "REMEMBERED", 3600.0)
    captures = capture.Captures()
    for _ in range(5):
        await captures.look()
    assert len(looks) == 1
    captures._until = time.monotonic() - 1  # as if an hour had gone
    await captures.look()
    assert len(looks) == 2


async def test_a_full_one_ends(
    program: CapturingProgram, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servers.models.gateway.request.MOST", 100)
    await on(ada)
    await program.ask(ask("hello"))

    ended = await Capture.objects.aget()
    assert (ended.is_on, ended.is_full, ended.ended_by_id) == (False, True, None)
    assert await Request.objects.acount() == 1
