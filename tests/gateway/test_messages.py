"""Anthropic's Messages API on an engine that only speaks chat completions, by their own package."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest
from anthropic.types import TextBlock, ToolParam, ToolUseBlock

from tests.gateway.conftest import Address
from tests.scripted_engine import MODEL
from tests.waiting import PATIENCE

# Its engine has no /v1/messages; of the other one another module says that it has.
SERVER = "twin-2"
CLAUDE_CODE = json.loads((Path(__file__).parent / "claude_code.json").read_text())
ADD: ToolParam = {
    "name": "add",
    "description": "Add two numbers.",
    "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}},
}


@pytest.fixture
def client(address: Address) -> Iterator[anthropic.Anthropic]:
    made = anthropic.Anthropic(base_url=address.url, api_key=address.token, max_retries=0)
    with made as client:
        yield client


def ask(script: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    text = script if isinstance(script, str) else json.dumps(script)
    return {
        "model": SERVER, "max_tokens": 20, "messages": [{"role": "user", "content": text}], **more
    }  # fmt: skip


def completed(message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    """A script that answers all at once."""
    said = {
        "id": "chatcmpl-9", "object": "chat.completion", "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4,
                  "prompt_tokens_details": {"cached_tokens": 5}},
    }  # fmt: skip
    return {"deltas": [], "content_type": "application/json", "error": said}


def test_an_answer_comes_whole(client: anthropic.Anthropic, address: Address) -> None:
    said = client.messages.create(
        **ask(completed({"content": "Hello."})), system="Be short.", stop_sequences=["END"]
    )

    assert said.content == [TextBlock(type="text", text="Hello.")]
    assert (said.stop_reason, said.role, said.model) == ("end_turn", "assistant", MODEL)
    assert (said.usage.input_tokens, said.usage.cache_read_input_tokens) == (4, 5)
    assert said.usage.output_tokens == 4
    asked = address.engines[1].requests[-1]
    assert asked["messages"][0] == {"role": "system", "content": "Be short."}
    assert (asked["model"], asked["max_tokens"], asked["stop"]) == ("twin", 20, ["END"])
    kept = address.requests()[0]
    assert (kept["path"], kept["server"], kept["status"]) == ("/v1/messages", SERVER, 200)
    assert (kept["prompt_tokens"], kept["cached_tokens"], kept["completion_tokens"]) == (9, 5, 4)


def test_an_answer_comes_as_a_stream(client: anthropic.Anthropic, address: Address) -> None:
    with client.messages.stream(**ask("by their package")) as stream:
        text = "".join(stream.text_stream)
        whole = stream.get_final_message()

    assert text == "You said: by their package "
    assert (whole.stop_reason, whole.usage.input_tokens) == ("end_turn", 7)
    kept = address.requests()[0]
    assert (kept["prompt_tokens"], kept["completion_tokens"]) == (7, len(text.split()))


def test_tools_are_called_and_answered(client: anthropic.Anthropic, address: Address) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add"}}
    pieces = [{**call, "function": {"name": "add", "arguments": ""}}] + [
        {"index": 0, "function": {"arguments": piece}} for piece in ('{"a"', ": 2", "}")
    ]
    wants = {
        "deltas": [
            {"reasoning_content": "Adding."},
            *({"tool_calls": [piece]} for piece in pieces),
        ],
        "finish": "tool_calls",
    }
    with client.messages.stream(**ask(wants), tools=[ADD], tool_choice={"type": "any"}) as stream:
        whole = stream.get_final_message()

    assert [each.type for each in whole.content] == ["thinking", "tool_use"]
    used = whole.content[1]
    assert isinstance(used, ToolUseBlock)
    assert (used.id, used.name, used.input) == ("c1", "add", {"a": 2})
    assert whole.stop_reason == "tool_use"
    asked = address.engines[1].requests[-1]
    assert asked["tool_choice"] == "required"
    assert asked["tools"][0]["function"]["parameters"] == ADD["input_schema"]

    result = {"type": "tool_result", "tool_use_id": "c1", "content": "3", "is_error": True}
    turns = [
        {"role": "user", "content": "add"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 2}}]},
        {"role": "user", "content": [result, {"type": "text", "text": "go on"}]},
    ]  # fmt: skip
    with client.messages.stream(**ask("") | {"messages": turns}, tools=[ADD]) as stream:
        stream.until_done()
    heard = address.engines[1].requests[-1]["messages"]
    assert [each["role"] for each in heard] == ["user", "assistant", "tool", "user"]
    assert heard[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 2}'}
    assert (heard[2]["tool_call_id"], heard[2]["content"]) == ("c1", "Error: 3")


def test_what_claude_code_sends_is_understood(address: Address) -> None:
    answer = httpx.post(
        f"{address.url}/v1/messages?beta=true",
        json=CLAUDE_CODE | {"model": SERVER},
        headers={"authorization": f"Bearer {address.token}", "anthropic-version": "2023-06-01"},
        timeout=PATIENCE,
    )

    assert answer.status_code == 200
    kinds = [line.removeprefix("event: ") for line in answer.text.splitlines() if "event: " in line]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    asked = address.engines[1].requests[-1]
    assert asked["messages"][0]["role"] == "system"
    assert "billing" not in json.dumps(asked["messages"])
    assert [each["function"]["name"] for each in asked["tools"]] == ["Bash", "Read"]
    assert asked["stream_options"] == {"include_usage": True}


def test_errors_have_their_shape(client: anthropic.Anthropic, address: Address) -> None:
    refused = {"deltas": [], "status": 400, "error": {"error": {"message": "Too long a prompt."}}}
    with pytest.raises(anthropic.BadRequestError, match=r"Too long a prompt\."):
        client.messages.create(**ask(refused))
    with pytest.raises(anthropic.InternalServerError, match="cannot be translated"):
        client.messages.create(**ask({"deltas": [], "content_type": "text/plain", "error": "hm"}))
    with pytest.raises(anthropic.BadRequestError, match="mcp_servers"):
        client.messages.create(**ask("hello"), extra_body={"mcp_servers": [{"url": "x"}]})
    for ends in ({"then": "drop"}, {"error": {"message": "Out of memory."}}):
        with (
            pytest.raises(anthropic.APIError, match=r"hung up in the middle|Out of memory\."),
            client.messages.stream(**ask({"deltas": [{"content": "half"}], **ends})) as stream,
        ):
            stream.until_done()
    assert [each["status"] for each in address.requests()[:2]] == [502, 502]


def test_tokens_are_counted_where_the_engine_counts(
    client: anthropic.Anthropic, address: Address
) -> None:
    turns: Any = [{"role": "user", "content": "hello"}]
    with pytest.raises(anthropic.NotFoundError, match=r"has no /v1/messages/count_tokens"):
        client.messages.count_tokens(model=SERVER, messages=turns)

    address.engines[1].answers["/tokenize"] = 200, json.dumps({"count": 12, "tokens": []})
    assert client.messages.count_tokens(model=SERVER, messages=turns).input_tokens == 12


def test_who_hangs_up_ends_it_at_the_engine(address: Address) -> None:
    engine = address.engines[1]
    while not engine.outcomes.empty():
        engine.outcomes.get()
    body = ask({"deltas": [{"content": "a"}], "then": "hang"}) | {"stream": True}
    headers = {"x-api-key": address.token}
    with httpx.stream(
        "POST", f"{address.url}/v1/messages", json=body, headers=headers, timeout=PATIENCE
    ) as answer:
        next(line for line in answer.iter_lines() if "content_block_delta" in line)

    assert engine.outcomes.get(timeout=PATIENCE) == "cancelled"


def test_a_path_that_the_engine_lacks_is_named(address: Address) -> None:
    answer = httpx.post(
        f"{address.url}/v1/rerank-all",
        json={"model": SERVER},
        headers={"x-api-key": address.token},
        timeout=PATIENCE,
    )

    assert (answer.status_code, answer.headers["x-inferdash-error"]) == (404, "no_such_path")
    said = answer.json()["error"]["message"]
    assert said.startswith("The engine of twin-2 (vllm) has no /v1/rerank-all.")


def test_an_engines_own_not_found_stays_as_it_is(address: Address) -> None:
    own = {"error": {"message": "The model `x` does not exist.", "type": "NotFoundError"}}
    address.engines[1].answers["/v1/own"] = 404, json.dumps(own)

    answer = httpx.post(
        f"{address.url}/v1/own",
        json={"model": SERVER},
        headers={"x-api-key": address.token},
        timeout=PATIENCE,
    )

    assert (answer.status_code, answer.json()) == (404, own)
