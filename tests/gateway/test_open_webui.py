"""What Open WebUI asked, as `make test-clients` recorded it of the real one, asked again."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine import answers
from tests.gateway.conftest import Address
from tests.scripted_engine import MODEL, ScriptedEngine
from tests.waiting import PATIENCE

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("open_webui.json").read_text())


@pytest.fixture
def engine(address: Address) -> Iterator[ScriptedEngine]:
    """The one of its model, which answers as vLLM does."""
    engine = address.engines[0]
    usual, engine.plan = (
        engine.plan,
        lambda body: answers.script(body, flavor="vllm", model=MODEL),
    )
    while not engine.outcomes.empty():
        engine.outcomes.get()
    yield engine
    engine.plan = usual


@pytest.fixture
def program(address: Address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address.url, timeout=PATIENCE) as program:
        program.headers.clear()  # httpx's own
        program.headers["authorization"] = f"Bearer {address.token}"
        yield program


def request(program: httpx.Client, kind: str, says: str | None = None) -> httpx.Request:
    """`says` in place of what was said last."""
    recorded = RECORDED["requests"][kind]
    body = recorded["body"]
    if says is not None:
        body = {**body, "messages": [*body["messages"][:-1], {"role": "user", "content": says}]}
    return program.build_request(
        recorded["method"],
        recorded["path"],
        headers=recorded["headers"],
        content=None if body is None else json.dumps(body).encode(),
    )


def events(text: str) -> list[dict[str, Any]]:
    """As it reads them: a line each, which begins with "data: ", until [DONE]."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.strip()]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def said(found: list[dict[str, Any]]) -> str:
    return "".join(
        each["choices"][0]["delta"].get("content") or "" for each in found if each["choices"]
    )


def test_it_finds_the_models(program: httpx.Client) -> None:
    answer = program.send(request(program, "models"))

    # It reads the body without a look at the status, and drops a list with an "error" in it.
    found = answer.json()
    assert "error" not in found
    assert MODEL in [each["id"] for each in found["data"]]
    # It would show a "name" in place of the id, and takes over "urlIdx", "info" and "direct".
    assert not {"name", "urlIdx", "info", "direct", "pipe"} & set(found["data"][0])


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        ("chat", "You said: hello from the other page"),
        ("picture", "You said: … what is on it (1 pictures)"),
        ("result of a tool", "You said: …"),
    ],
)
def test_its_chats_reach_the_engine_as_they_are_and_stream_back(
    program: httpx.Client, engine: ScriptedEngine, kind: str, reads: str
) -> None:
    answer = program.send(request(program, kind))

    # By this it knows a stream.
    assert "text/event-stream" in answer.headers["content-type"]
    assert "content-encoding" not in answer.headers
    found = events(answer.text)
    assert said(found) == reads
    assert found[-1]["choices"][0]["finish_reason"] == "stop"
    # It asks for no counts: we do, and it does not see them.
    counted = {"stream_options": {"include_usage": True}}
    assert engine.requests[-1] == RECORDED["requests"][kind]["body"] | counted


def test_its_tools_are_called(program: httpx.Client, engine: ScriptedEngine) -> None:
    answer = program.send(request(program, "chat", "[[tool]]"))

    calls = [
        call
        for each in events(answer.text)
        for call in each["choices"][0]["delta"].get("tool_calls", [])
    ]
    assert calls[0]["function"]["name"] == "get_current_timestamp"
    assert "".join(call["function"]["arguments"] for call in calls) == '{"city": "Brno"}'


@pytest.mark.parametrize("kind", ["title", "after an answer"])
def test_its_chores_are_answered_whole(
    program: httpx.Client, engine: ScriptedEngine, kind: str
) -> None:
    answer = program.send(request(program, kind))

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["choices"][0]["message"]["content"] == "You said: …"


def test_an_answer_that_is_stopped_there_stops_at_the_engine(
    program: httpx.Client, engine: ScriptedEngine
) -> None:
    asked = request(program, "chat", "[[tokens 4000]] [[pace 10]]")
    answer = program.send(asked, stream=True)
    next(answer.iter_raw())
    answer.close()

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"


def test_it_reads_why_the_engine_refuses(program: httpx.Client, engine: ScriptedEngine) -> None:
    answer = program.send(request(program, "chat", "[[refuse 400]]"))

    # It shows the "message" of an "error" in an answer of 400 or more.
    assert answer.status_code == 400
    assert "maximum context length" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("says", "reads"),
    [("[[tokens 8]] [[error]]", "EngineCore"), ("[[tokens 8]] [[drop]]", "hung up in the middle")],
)
def test_it_reads_what_ends_an_answer(
    program: httpx.Client, engine: ScriptedEngine, says: str, reads: str
) -> None:
    answer = program.send(request(program, "chat", says))

    # The "message" of an "error" in a line of its own.
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines()]
    found = [json.loads(line) for line in lines if line.startswith("{")]
    (error,) = [each["error"] for each in found if "error" in each]
    assert said([each for each in found if "error" not in each]) == "the quick brown fox "
    assert reads in error["message"]


def test_it_reads_that_a_server_is_not_ready(program: httpx.Client) -> None:
    recorded = RECORDED["requests"]["chat"]
    asked = program.build_request(
        recorded["method"],
        recorded["path"],
        headers=recorded["headers"],
        json={**recorded["body"], "model": "asleep"},
    )
    answer = program.send(asked)

    assert answer.status_code == 503
    assert "asleep is starting" in answer.json()["error"]["message"]
