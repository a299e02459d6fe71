"""Messages and chat completions say the same: requests, answers, and streams cut anywhere."""

import json
from typing import Any

import pytest
from anthropic.types import Message
from hypothesis import given
from hypothesis import strategies as st

from servers.gateway.callers import Refusal
from servers.gateway.messages.request import translate_messages, translate_request
from servers.gateway.messages.response import (
    LONGEST_LINE,
    MessagesStream,
    NotTranslatedError,
    translate_error,
    translate_response,
)
from tests.cases import Cases, table

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
HI = {"role": "user", "content": "hi"}


def block(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


def function(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


CONVERSATIONS: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
    ({"messages": [HI]}, [HI]),
    ({"messages": [HI], "system": "Be kind."}, [{"role": "system", "content": "Be kind."}, HI]),
    (
        {"messages": [HI], "system": [block("text", text="a"), block("text", text="b")]},
        [{"role": "system", "content": "a\nb"}, HI],
    ),
    (user(block("text", text="a"), block("text", text="b")), [{"role": "user", "content": "a\nb"}]),
    (
        user(block("text", text="what?"), PICTURE),
        [{"role": "user", "content": [{"type": "text", "text": "what?"}, SHOWN]}],
    ),
    (
        user(block("tool_result", tool_use_id="c1", content=[block("text", text="3"), PICTURE])),
        [
            {"role": "tool", "tool_call_id": "c1", "content": "3"},
            {"role": "user", "content": [SHOWN]},
        ],
    ),
    (
        user(block("tool_result", tool_use_id="c1")),
        [{"role": "tool", "tool_call_id": "c1", "content": ""}],
    ),
    (
        {
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        block("thinking", thinking="hm", signature="x"),
                        block("redacted_thinking", data="x"),
                        block("text", text="I add."),
                        block("tool_use", id="c1", name="add", input={"a": 2}),
                    ],
                }
            ]
        },
        [
            {
                "role": "assistant",
                "content": "I add.",
                "reasoning_content": "hm",
                "tool_calls": [function("add", '{"a": 2}')],
            }
        ],
    ),
]


def test_a_conversation_is_said_in_their_words() -> None:
    with Cases() as cases:
        for number, (said, wanted) in enumerate(CONVERSATIONS):
            with cases.named(str(number)):
                assert translate_messages(said) == wanted


FIELDS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("vllm", {"temperature": 0.5, "top_k": 3}, {"temperature": 0.5, "top_k": 3}),
    ("sglang", {"stop_sequences": ["a"]}, {"stop": ["a"]}),
    ("vllm", {"thinking": {"type": "disabled"}}, {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}}),
    ("vllm", {"thinking": {"type": "enabled", "budget_tokens": 9}}, {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}}),
    ("vllm", {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
    ("vllm", {"tool_choice": {"type": "any"}}, {}),
    ("vllm", {"metadata": {"user_id": "x"}, "service_tier": "auto"}, {}),
    ("other", {"top_p": 0.5}, {"top_p": 0.5}),
]  # fmt: skip


def test_fields_are_those_of_the_engine() -> None:
    with Cases() as cases:
        for engine, said, wanted in FIELDS:
            with cases.named(f"{engine} {said}"):
                made = translate_request({"messages": [HI], "max_tokens": 5} | said, engine)
                assert made == {"messages": [HI], "max_tokens": 5} | wanted


@table(
    ("said", "message"),
    [
        ({"messages": [HI]}, "max_tokens: Field required"),
        ({"max_tokens": 1}, "messages: at least one message is required"),
        ({"max_tokens": 1, "messages": [7]}, "messages.0: not an object"),
        ({"max_tokens": 1, "messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
        ({"max_tokens": 1, "messages": [{"role": "user", "content": 7}]}, "messages.0.content"),
        ({"max_tokens": 1, **user(block("text"))}, "messages.0.content.0.text"),
        ({"max_tokens": 1, **user(block("video"))}, "a block of type 'video'"),
        (
            {"max_tokens": 1, **user(block("image", source={"type": "file"}))},
            "a picture from 'file'",
        ),
        ({"max_tokens": 1, "messages": [HI], "container": "x"}, "container"),
        ({"max_tokens": 1, "messages": [HI], "tools": "x"}, "tools: not a list"),
        (
            {"max_tokens": 1, "messages": [HI], "tools": [{"type": "web_search_20250305"}]},
            "web_search_20250305",
        ),
        ({"max_tokens": 1, "messages": [HI], "tools": [{"name": "a"}]}, "tools.0.input_schema"),
    ],
)
def test_what_cannot_be_said_is_refused_by_its_place(said: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal) as refused:
        translate_request(said, "vllm")

    assert refused.value.status == 400
    assert message in refused.value.message


def answer(message: dict[str, Any], finish: str = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish, **more}
    return json.dumps({"id": "1", "model": "m", "choices": [choice]}).encode()


@table(
    ("said", "kinds", "stop"),
    [
        (answer({"content": "a"}), ["text"], "end_turn"),
        (answer({"content": "a"}, "length"), ["text"], "max_tokens"),
        (answer({"content": "a", "reasoning": "b"}), ["thinking", "text"], "end_turn"),
        (answer({"content": "a"}, stop_reason="END"), ["text"], "stop_sequence"),
        (answer({"content": "a"}, stop_reason=128009), ["text"], "end_turn"),
        (answer({"content": "a"}, matched_stop="END"), ["text"], "stop_sequence"),
        (answer({"content": None, "tool_calls": [function("f", "{}")]}), ["tool_use"], "tool_use"),
        (
            answer({"content": None, "tool_calls": [function("f", '{"a')]}, "length"),
            [],
            "max_tokens",
        ),
        (answer({"content": ""}, "content_filter"), [], "refusal"),
    ],
)
def test_an_answer_is_a_message(said: bytes, kinds: list[str], stop: str) -> None:
    message = Message.model_validate_json(translate_response(said))

    assert [each.type for each in message.content] == kinds
    assert message.stop_reason == stop


@table(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"choices": []}',
        answer({"content": None, "tool_calls": [function("f", "no json")]}),
        answer({"content": None, "tool_calls": [{}]}),
    ],
)
def test_what_is_no_answer_is_told(body: bytes) -> None:
    with pytest.raises(NotTranslatedError):
        translate_response(body)


@table(
    ("body", "message"),
    [
        (b'{"error": {"message": "a", "code": 400}}', "a"),
        (b'{"object": "error", "message": "b"}', "b"),
        (b'{"detail": "c"}', "c"),
        (b'{"detail": [{"loc": ["body"], "msg": "d"}]}', '[{"loc": ["body"], "msg": "d"}]'),
        (b'{"error": "e"}', "e"),
        (b"f", "f"),
        (b"", "The engine answered 400."),
    ],
)
def test_an_engines_refusal_keeps_its_words(body: bytes, message: str) -> None:
    said = json.loads(translate_error(400, body))

    assert said["error"] == {"type": "invalid_request_error", "message": message}


# Streams


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    said = {"id": "1", "model": "m", "choices": [] if delta is None and not finish else [choice]}
    return b"data: " + json.dumps(said | more, ensure_ascii=False).encode() + b"\n\n"


def call(
    index: int | None, name: str = "", arguments: str = "", number: str = ""
) -> dict[str, Any]:
    said: dict[str, Any] = {"function": {"name": name or None, "arguments": arguments}}
    if index is not None:
        said["index"] = index
    return {"tool_calls": [said | ({"id": number} if number else {})]}


def hear(stream: bytes, cuts: list[int] | None = None) -> list[dict[str, Any]]:
    """The events, of a stream that comes in these pieces."""
    heard, said, at = MessagesStream(), b"", 0
    for cut in sorted({min(cut, len(stream)) for cut in cuts or []} | {len(stream)}):
        said += heard.hear(stream[at:cut])
        at = cut
    said += heard.end()
    events = said.decode().split("\n\n")
    assert events.pop() == ""
    found = [json.loads(each.partition("data: ")[2]) for each in events]
    assert [each.partition("\n")[0] for each in events] == [f"event: {e['type']}" for e in found]
    return found


WHOLE = (
    b": still there\n\n"
    + chunk({"role": "assistant", "content": ""})
    + chunk({"reasoning_content": "Hmm ÄÖ 漢字"})
    + chunk({"content": "Hello"})
    + b": still there\n\n"
    + chunk({"content": " 🙂"})
    + chunk(call(0, "add", "", "c1"))
    + chunk(call(0, "", '{"a": '))
    + chunk({"content": "\n"})
    + chunk(call(0, "", "2}"))
    + chunk(call(1, "stop", "{}", "c2"))
    + chunk({}, "tool_calls")
    + chunk(usage={"prompt_tokens": 9, "completion_tokens": 4})
    + b"data: [DONE]\n\n"
)


@given(cuts=st.lists(st.integers(0, len(WHOLE)), max_size=40), crlf=st.booleans())
def test_a_stream_is_the_same_wherever_it_is_cut(cuts: list[int], crlf: bool) -> None:
    said = hear(WHOLE.replace(b"\n\n", b"\r\n\r\n") if crlf else WHOLE, cuts)

    blocks: dict[int, list[str]] = {}
    for each in said:
        if each["type"] == "content_block_start":
            blocks[each["index"]] = [each["content_block"]["type"]]
        elif each["type"] == "content_block_delta":
            delta = {name: text for name, text in each["delta"].items() if name != "type"}
            blocks[each["index"]] += delta.values()
    assert {index: (each[0], "".join(each[1:])) for index, each in blocks.items()} == {
        0: ("thinking", "Hmm ÄÖ 漢字"),
        1: ("text", "Hello 🙂"),
        2: ("tool_use", '{"a": 2}'),
        3: ("tool_use", "{}"),
    }
    assert [each["type"] for each in said].count("content_block_stop") == 4
    assert said[-2]["delta"]["stop_reason"] == "tool_use"
    assert (said[-2]["usage"]["input_tokens"], said[-2]["usage"]["output_tokens"]) == (9, 4)
    assert said[-1]["type"] == "message_stop"


@table(
    ("stream", "message"),
    [
        (chunk({"content": "a"}), "ended its answer without saying why"),
        (chunk({"content": "a"}) + b'data: {"error": {"message": "No memory."}}\n\n', "No memory."),
        (b"data: nonsense\n\n", "no JSON"),
        (chunk(call(0, "", "{")), "without its name"),
        (
            chunk(call(0, "a", "", "1")) + chunk(call(1, "b", "", "2")) + chunk(call(0, "", "{}")),
            "mixed the arguments of two calls",
        ),
        (b"data: " + b"x" * (LONGEST_LINE + 1), "more than 1 MiB"),
        (b"", "ended its answer without saying why"),
    ],
)
def test_a_stream_that_breaks_ends_with_its_error(stream: bytes, message: str) -> None:
    said = hear(stream)

    assert said[-1]["type"] == "error"
    assert message in said[-1]["error"]["message"]
    assert "message_stop" not in [each["type"] for each in said]


def test_calls_without_numbers_are_told_apart_by_their_ids() -> None:
    said = hear(
        chunk(call(None, "a", "{", "1")) + chunk(call(None, "", "}")) + chunk(call(None, "b", "{}", "2"))
        + chunk({}, "tool_calls")
    )  # fmt: skip

    starts = [each["content_block"] for each in said if each["type"] == "content_block_start"]
    assert [(each["id"], each["name"]) for each in starts] == [("1", "a"), ("2", "b")]


def test_nothing_is_kept_of_a_long_answer() -> None:
    stream = MessagesStream()
    for _piece in range(1000):
        stream.hear(chunk({"content": "x" * 1000}))

    assert len(stream._rest) == 0
