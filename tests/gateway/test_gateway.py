"""One address for all engines, asked over HTTP as programs ask it."""

import json
import queue
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import Address
from tests.scripted_engine import MODEL
from tests.waiting import PATIENCE

CHAT = "/v1/chat/completions"


@pytest.fixture
def program(address: Address) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {address.token}"}
    with httpx.Client(base_url=address.url, headers=headers, timeout=PATIENCE) as client:
        yield client


def ask(text: str | dict[str, Any], model: str | None = MODEL, **more: Any) -> dict[str, Any]:
    content = text if isinstance(text, str) else json.dumps(text)
    said = {"messages": [{"role": "user", "content": content}], "stream": True, **more}
    return said if model is None else {"model": model, **said}


def events(body: str) -> list[Any]:
    found = [line.removeprefix("data: ") for line in body.split("\n") if line.startswith("data: ")]
    return [json.loads(each) for each in found if each != "[DONE]"]


def last_outcome(address: Address) -> str:
    return address.engines[0].outcomes.get(timeout=PATIENCE)


def test_a_stream_is_passed_on_as_the_engine_sends_it(
    program: httpx.Client, address: Address
) -> None:
    answer = program.post(CHAT, json=ask("one address"))

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    said = "".join(
        each["choices"][0]["delta"].get("content") or "" for each in events(answer.text)[:-1]
        if each["choices"]
    )  # fmt: skip
    assert said == "You said: one address "
    assert answer.text.endswith("data: [DONE]\n\n")
    (kept, *_) = address.requests()
    assert kept["server"] == "tiny"
    assert (kept["status"], kept["cancelled"], kept["error"]) == (200, False, "")
    assert (kept["prompt_tokens"], kept["completion_tokens"], kept["key"]) == (7, 4, address.key)
    assert 0 < float(str(kept["first"])) <= float(str(kept["duration"]))


def test_the_key_of_inferdash_is_not_told_to_the_engine(
    program: httpx.Client, address: Address
) -> None:
    program.post(CHAT, json=ask("hello"), headers={"Cookie": "a=b", "X-Request-Id": "abc"})

    told = address.engines[0].headers[-1]
    assert address.token not in json.dumps(told)
    assert "cookie" not in told
    assert told["x-request-id"] == "abc"
    assert told["host"] == f"127.0.0.1:{address.engines[0].port}"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "no_key"),
        ({"Authorization": "Bearer sk-wrong"}, "invalid_api_key"),
        ({"Authorization": "Bearer {ended}"}, "invalid_api_key"),
        ({"Authorization": "Bearer {looks}"}, "invalid_api_key"),
        ({"x-api-key": "ifd_wrong"}, "invalid_api_key"),
    ],
)
def test_without_a_key_that_may_chat_nothing_is_passed_on(
    address: Address, headers: dict[str, str], code: str
) -> None:
    before = len(address.engines[0].headers)
    told = {
        name: value.format(ended=address.ended, looks=address.looks)
        for name, value in headers.items()
    }
    for path in (CHAT, "/v1/models", "/tokenize"):
        answer = httpx.post(f"{address.url}{path}", json=ask("hello"), headers=told)

        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["code"] == code
    assert len(address.engines[0].headers) == before


@pytest.mark.parametrize("empty", ["", "Bearer", "Basic eDp5"])
def test_a_header_without_a_key_hides_none_in_the_other(address: Address, empty: str) -> None:
    """Programs that speak to OpenAI and Anthropic send both, one of them perhaps empty."""
    headers = {"authorization": empty, "x-api-key": address.token}

    answer = httpx.post(f"{address.url}{CHAT}", json=ask("hello"), headers=headers)

    assert answer.status_code == 200


def test_a_key_may_be_for_some_models_alone(address: Address) -> None:
    headers = {"x-api-key": address.narrow}
    with httpx.Client(base_url=address.url, headers=headers) as program:
        refused = program.post(CHAT, json=ask("hello"))

        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "model_not_allowed"
        assert "may not use tiny, only twin-1" in refused.json()["error"]["message"]
        assert program.post(CHAT, json=ask("hello", model="twin-1")).status_code == 200
        listed = program.get("/v1/models").json()["data"]
        assert {each["id"] for each in listed} == {"twin", "twin-1"}
        assert program.get("/v1/models/tiny").status_code == 403


def test_a_key_that_asks_models_only_opens_the_gateway_alone(address: Address) -> None:
    headers = {"Authorization": f"Bearer {address.asks}"}
    with httpx.Client(base_url=address.url, headers=headers) as program:
        assert program.post(CHAT, json=ask("hello")).status_code == 200
        assert program.get("/v1/models/tiny").status_code == 200
        refused = program.get("/api/v1/servers")

    assert refused.status_code == 403
    assert "may use models only" in refused.json()["error"]["message"]


def test_a_key_may_ask_so_often_a_minute(address: Address) -> None:
    headers = {"x-api-key": address.few}
    with httpx.Client(base_url=address.url, headers=headers) as program:
        assert program.get("/v1/models").status_code == 200  # which asks no engine
        answers = [program.post(CHAT, json=ask("hello")) for _ in range(3)]

    assert [each.status_code for each in answers] == [200, 200, 429]
    assert 0 < int(answers[2].headers["retry-after"]) <= 60
    assert answers[2].json()["error"]["type"] == "rate_limit_error"


def test_a_cookie_is_no_key(address: Address) -> None:
    cookies = {address.stack.cookie: address.stack.session}

    assert httpx.get(f"{address.url}/v1/models", cookies=cookies).status_code == 401


def test_models_lists_what_is_ready_by_both_its_names(program: httpx.Client) -> None:
    listed = program.get("/v1/models").json()

    assert listed["object"] == "list"
    assert {each["id"] for each in listed["data"]} == {MODEL, "tiny", "twin", "twin-1", "twin-2"}
    one = program.get("/v1/models/twin-1").json()
    assert (one["id"], one["root"], one["owned_by"]) == ("twin-1", "twin", "vllm")
    assert program.get("/v1/models/org/Twin").json()["id"] == "twin"
    missing = program.get("/v1/models/gone")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


def test_a_server_answers_to_its_own_name_and_its_checkpoint(
    program: httpx.Client, address: Address
) -> None:
    assert program.post(CHAT, json=ask("hello", model="tiny", top_k=5)).status_code == 200
    asked = address.engines[0].requests[-1]
    assert asked["model"] == MODEL
    assert asked["top_k"] == 5

    assert program.post(CHAT, json=ask("hello", model="org/Twin")).status_code == 200


def test_replicas_share_the_work(program: httpx.Client, address: Address) -> None:
    """The one with fewer of our requests is asked: two at once go to two engines."""
    slow = {"deltas": [{"content": "x"}] * 3, "then": "hang"}
    with program.stream("POST", CHAT, json=ask(slow, model="twin")) as first:
        pieces = first.iter_raw()  # kept: one that is thrown away closes its connection
        assert b"choices" in next(pieces)
        before = len(address.engines[1].requests)
        assert program.post(CHAT, json=ask("hello", model="twin")).status_code == 200
        assert len(address.engines[1].requests) == before + 1


def test_who_hangs_up_ends_it_at_the_engine(program: httpx.Client, address: Address) -> None:
    outcomes: queue.Queue[str] = address.engines[0].outcomes
    while not outcomes.empty():
        outcomes.get()
    hangs = {"deltas": [{"content": "x"}], "then": "hang"}
    with program.stream("POST", CHAT, json=ask(hangs)) as answer:
        next(answer.iter_raw())

    assert last_outcome(address) == "cancelled"
    program.post(CHAT, json=ask("hello"))  # its row is written after the other's
    cancelled = address.requests()[1]
    assert (cancelled["cancelled"], cancelled["status"]) == (True, 200)


def test_an_engine_that_dies_in_mid_stream_is_said_in_the_stream(
    program: httpx.Client, address: Address
) -> None:
    drops = {"deltas": [{"content": "half"}], "then": "drop"}
    answer = program.post(CHAT, json=ask(drops))

    *_, last = events(answer.text)  # each of them is whole
    error = last["error"]
    assert error["code"] == "engine_lost"
    assert "tiny hung up in the middle of its answer" in error["message"]
    assert "[DONE]" not in answer.text
    kept = address.requests()[0]
    assert (kept["status"], kept["server"]) == (502, "tiny")


def test_an_engines_own_refusal_is_passed_on_as_it_is(program: httpx.Client) -> None:
    refuses = {
        "deltas": [],
        "status": 400,
        "error": {"error": {"message": "too long", "code": 400}},
    }
    refuses["content_type"] = "application/json"
    answer = program.post(CHAT, json=ask(refuses))

    assert answer.status_code == 400
    assert answer.json() == {"error": {"message": "too long", "code": 400}}


@pytest.mark.parametrize(
    ("model", "status", "code", "says"),
    [
        ("nobody", 404, "model_not_found", "No server answers to “nobody”: tiny-qwen, twin."),
        ("asleep", 503, "model_not_ready", "asleep is starting"),
        (None, 400, "model_missing", "says no “model”, and 3 are ready: tiny-qwen, twin."),
    ],
)
def test_who_cannot_be_served_is_told_why(
    program: httpx.Client, model: str | None, status: int, code: str, says: str
) -> None:
    answer = program.post(CHAT, json=ask("hello", model=model))

    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["code"] == answer.headers["x-inferdash-error"] == code
    assert says in error["message"]
    assert ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"model": 3}', b"\xff"])
def test_what_is_no_request_is_refused(program: httpx.Client, body: bytes) -> None:
    answer = program.post(CHAT, content=body, headers={"content-type": "application/json"})

    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_model_is_found_in_a_form(program: httpx.Client, address: Address) -> None:
    address.engines[0].answers["/v1/audio/transcriptions"] = (200, '{"text": "hello"}')
    files = {"file": ("a.wav", b"RIFF" * 40_000, "audio/wav")}
    answer = program.post("/v1/audio/transcriptions", data={"model": MODEL}, files=files)

    assert answer.json() == {"text": "hello"}


def test_anthropics_clients_read_errors_in_their_own_shape(address: Address) -> None:
    headers = {"x-api-key": address.token}
    answer = httpx.post(f"{address.url}/v1/messages", json={"model": "nobody"}, headers=headers)

    assert answer.status_code == 404
    said = answer.json()
    assert said["type"] == "error"
    assert said["error"]["type"] == "not_found_error"


def test_pages_are_still_pages(address: Address) -> None:
    assert httpx.get(f"{address.url}/login/").status_code == 200
    assert httpx.get(f"{address.url}/v1").status_code in (302, 404)
