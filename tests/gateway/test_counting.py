"""Token counts of streams that were not asked for them: known to us, and not shown to who asks."""

import json

import httpx
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionMessageParam

from servers.gateway import requests
from tests.cases import table
from tests.gateway.conftest import Address

CHAT = "/v1/chat/completions"
ASKED = {"stream_options": {"include_usage": True}}


@table(
    ("path", "said", "engine", "more"),
    [
        pytest.param(CHAT, {"stream": True}, "vllm", ASKED, id="chat"),
        pytest.param("/v1/completions", {"stream": True}, "sglang", ASKED, id="completion"),
        pytest.param(
            CHAT,
            {"stream": True, "stream_options": {"include_usage": False, "x": 1}},
            "vllm",
            {"stream_options": {"include_usage": True, "x": 1}},
            id="asked not to",
        ),
        pytest.param(CHAT, {"stream": True} | ASKED, "vllm", {}, id="asked itself"),
        pytest.param(CHAT, {"stream": False}, "vllm", {}, id="no stream"),
        pytest.param(CHAT, {"stream": "yes"}, "vllm", {}, id="nonsense of a stream"),
        pytest.param(
            CHAT, {"stream": True, "stream_options": 1}, "vllm", {}, id="nonsense of options"
        ),
        pytest.param(CHAT, {"stream": True}, "llamacpp", {}, id="says it unasked"),
        pytest.param(CHAT, {"stream": True}, "other", {}, id="another engine"),
        pytest.param("/v1/messages", {"stream": True}, "vllm", {}, id="another api"),
        pytest.param(CHAT, None, "vllm", {}, id="no json"),
    ],
)
def test_it_is_asked_for_only_where_that_changes_nothing_else(
    path: str, said: dict[str, object] | None, engine: str, more: dict[str, object]
) -> None:
    assert requests.asked_for(path, said, engine) == more


def event(said: object, gap: str = "\n\n") -> bytes:
    return f"data: {json.dumps(said)}{gap}".encode()


WORD = {"choices": [{"delta": {"content": 'say "choices": [] and "usage"'}}]}
COUNTS = {"choices": [], "usage": {"prompt_tokens": 1}}


@pytest.mark.parametrize("gap", ["\n\n", "\r\n\r\n"], ids=["lf", "crlf"])
def test_the_event_of_counts_alone_is_left_out(gap: str) -> None:
    word, end = event(WORD, gap), f"data: [DONE]{gap}".encode()

    assert requests.drop_usage_event(word + event(COUNTS, gap) + end) == word + end
    assert requests.drop_usage_event(word) == word
    assert requests.drop_usage_event(b"") == b""


@pytest.mark.parametrize(
    "said",
    [
        {"choices": [{"delta": {}}], "usage": {"prompt_tokens": 1}},
        {"choices": [], "usage": None},
        {"choices": [], "usage": {"prompt_tokens": 1}, "error": {"message": "out of memory"}},
        {"choices": [], "prompt_filter": "usage"},
        [],
    ],
    ids=["with words", "no counts", "an error", "something else", "no object"],
)
def test_whatever_says_more_is_passed_on(said: object) -> None:
    assert requests.drop_usage_event(event(said)) == event(said)


def test_half_an_event_is_passed_on() -> None:
    half = b'data: {"choices": [], "usage": {'
    assert requests.drop_usage_event(half) == half


def test_a_program_that_asks_for_no_counts_is_counted_and_sees_none(address: Address) -> None:
    asked: list[ChatCompletionMessageParam] = [{"role": "user", "content": "one two three"}]
    with OpenAI(base_url=f"{address.url}/v1", api_key=address.token) as client:
        plain = list(client.chat.completions.create(model="twin-1", messages=asked, stream=True))
        counted = list(
            client.chat.completions.create(
                model="twin-1",
                messages=asked,
                stream=True,
                stream_options={"include_usage": True},
            )
        )

    assert all(chunk.choices for chunk in plain)
    assert [chunk.usage for chunk in plain if chunk.usage] == []
    assert not counted[-1].choices
    assert counted[-1].usage is not None
    assert counted[-1].usage.prompt_tokens == 7
    assert len(plain) == len(counted) - 1
    for row in address.requests()[:2]:
        assert (row["prompt_tokens"], row["completion_tokens"]) == (7, 5)


def test_what_it_reads_ends_as_the_engine_ended_it(address: Address) -> None:
    asked = {"model": "twin-1", "stream": True, "messages": [{"role": "user", "content": "one"}]}
    headers = {"authorization": f"Bearer {address.token}"}
    with httpx.stream("POST", f"{address.url}{CHAT}", json=asked, headers=headers) as answer:
        text = answer.read()

    assert text.endswith(b"\n\ndata: [DONE]\n\n")
    assert b'"usage"' not in text
