"""What a chat may say and ask, and what each engine is asked in its own words."""

import json
from typing import Any

import pytest

from servers.forms.conversation import PICTURES_LIMIT, AskError, read_chat
from servers.launch.engines import sampling
from tests.cases import table

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


def asked(messages: list[Any], **params: Any) -> bytes:
    return json.dumps({"run": 1, "messages": messages, "params": params}).encode()


def test_engines_are_asked_in_their_own_words() -> None:
    given = {"repetition_penalty": 1.1, "top_k": 0, "min_tokens": 3, "logprobs": 2, "seed": 1}
    given["thinking_budget"] = 20

    assert sampling.request("vllm", given) == {
        "repetition_penalty": 1.1,
        "top_k": 0,
        "min_tokens": 3,
        "logprobs": True,
        "top_logprobs": 2,
        "seed": 1,
        "thinking_token_budget": 20,
    }
    assert "thinking_budget" not in sampling.request("sglang", given)
    assert sampling.request("sglang", given)["top_k"] == -1
    llamacpp = sampling.request("llamacpp", given)
    assert llamacpp["repeat_penalty"] == 1.1
    assert llamacpp["thinking_budget_tokens"] == 20
    assert not {"repetition_penalty", "min_tokens"} & set(llamacpp)


def test_thinking_goes_to_the_template_with_what_else_is_told_to_it() -> None:
    given = {"thinking": "off", "chat_template_kwargs": {"style": "brief"}}

    assert sampling.request("vllm", given) == {
        "chat_template_kwargs": {"enable_thinking": False, "thinking": False, "style": "brief"}
    }
    assert sampling.request("llamacpp", {"reasoning_effort": "high"}) == {
        "chat_template_kwargs": {"reasoning_effort": "high"}
    }
    assert sampling.request("llamacpp", {"reasoning_effort": "none"}) == {
        "reasoning_effort": "none"
    }
    assert sampling.request("sglang", {"reasoning_effort": "low"}) == {"reasoning_effort": "low"}


def test_llama_cpp_is_given_one_tool_where_one_must_be_called() -> None:
    # It takes words alone, and ignores the object that names a function.
    tools = [{"type": "function", "function": {"name": name}} for name in ("look", "weather")]
    choice = {"type": "function", "function": {"name": "weather"}}

    assert sampling.request("llamacpp", {"tools": tools, "tool_choice": choice}) == {
        "tools": tools[1:],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    }
    given: dict[str, Any] = {"tools": tools, "tool_choice": "auto"}
    assert sampling.request("llamacpp", given) == given
    given = {"tools": tools, "tool_choice": choice}
    assert sampling.request("vllm", given) == given
    unknown = given | {"tool_choice": {"type": "function", "function": {"name": "other"}}}
    assert sampling.request("llamacpp", unknown) == unknown


def test_logprobs_as_openai_says_them_pass() -> None:
    given = {"logprobs": True, "top_logprobs": 4}

    assert sampling.request("vllm", given) == given


@table(
    ("name", "value", "said"),
    [
        ("min_p", 1.5, "Min-p must be a number from 0 to 1, not 1.5."),
        ("repetition_penalty", 0, "Repetition penalty must be a number from 0.01 to 2"),
        ("presence_penalty", float("inf"), "Presence penalty"),
        ("top_k", 1.5, "Top-k must be a whole number from 0"),
        ("seed", -1, "Seed must be a whole number from 0"),
        ("stop", [""], "Stop must be a text, or up to 16"),
        ("stop", ["x"] * 17, "Stop must be"),
        ("logprobs", 21, "Logprobs must be a whole number from 0 to 20"),
        ("thinking", "maybe", "Thinking must be one of on, off"),
        ("thinking", ["on"], "Thinking must be one of on, off"),
        ("chat_template_kwargs", [], "Template arguments must be a JSON object"),
    ],
)
def test_a_value_out_of_its_range_is_said(name: str, value: Any, said: str) -> None:
    assert sampling.problem({name: value}).startswith(said)


def test_pictures_calls_and_results_become_the_engines_messages() -> None:
    said = [
        {"role": "user", "content": [{"type": "text", "text": "What is it?", "x": 1}, PICTURE]},
        {"role": "assistant", "content": "", "tool_calls": [CALL | {"x": 1}], "x": 1},
        {"role": "tool", "content": "21 degrees", "tool_call_id": "call_1", "x": 1},
    ]

    assert read_chat(asked(said)).messages == [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, PICTURE]},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "21 degrees", "tool_call_id": "call_1"},
    ]


def picture(url: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


@table(
    ("message", "said"),
    [
        (picture("http://169.254.169.254/latest"), "within the message"),
        (picture("file:///etc/passwd"), "within the message"),
        (picture("data:image/svg+xml;base64,PHN2Zz4="), "within the message"),
        (picture("data:image/png;base64,AAAA\nhttp://x"), "within the message"),
        (picture(None), "within the message"),
        ({"role": "user", "content": [{"type": "video_url"}]}, "a text or pictures"),
        ({"role": "user", "content": []}, "must have a text"),
        ({"role": "assistant", "content": [PICTURE]}, "must have a text"),
        ({"role": "assistant", "content": "", "tool_calls": []}, "are no list"),
        ({"role": "assistant", "content": "", "tool_calls": [{}]}, "names no function"),
        (
            {"role": "assistant", "content": "", "tool_calls": [{"id": 1, "function": {}}]},
            "must have a text",
        ),
        ({"role": "tool", "content": "x"}, "result of a tool must have a text"),
    ],
)
def test_a_message_that_no_engine_may_get_is_refused(message: dict[str, Any], said: str) -> None:
    with pytest.raises(AskError, match=said):
        read_chat(asked([message]))


def test_too_many_pictures_are_said() -> None:
    said = {"role": "user", "content": [PICTURE] * (PICTURES_LIMIT + 1)}

    with pytest.raises(AskError, match="17 pictures, and 16 is the limit"):
        read_chat(asked([said]))


def test_tools_must_be_a_list_of_objects() -> None:
    hello = [{"role": "user", "content": "Hi"}]

    with pytest.raises(AskError, match="The tools must be a list"):
        read_chat(asked(hello, tools="x"))
