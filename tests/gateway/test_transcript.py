"""What streams amount to, in the words of each API."""

import json
from typing import Any

import pytest

from servers.gateway.capture import LONGEST_LINE, Transcript


def text_of(*events: Any, most: int = 10_000) -> str:
    found = Transcript(most)
    for event in events:
        found.add_piece(b"data: " + json.dumps(event).encode() + b"\n\n")
    found.add_piece(b"data: [DONE]\n\n")
    return found.text


def chat(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def test_an_answer_alone_is_its_text() -> None:
    assert text_of(
        chat(role="assistant", content=None), chat(content="Wh"), chat(content="y?")
    ) == ("Why?")
    assert text_of({"choices": [{"text": "4"}]}, {"choices": [{"text": "2"}]}) == "42"


def test_events_may_be_cut_anywhere() -> None:
    said = b"".join(
        b"data: " + json.dumps(chat(content=each)).encode() + b"\r\n\r\n" for each in "Zoë"
    )
    found = Transcript(100)
    for at in range(len(said)):
        found.add_piece(said[at : at + 1])
    assert found.text == "Zoë"


def test_reasoning_and_calls_stand_under_their_names() -> None:
    call = {"index": 0, "function": {"name": "weather", "arguments": '{"city": '}}
    more = {"index": 0, "function": {"arguments": '"Oslo"}'}}
    said = text_of(chat(reasoning="Hm"), chat(content="Let me"), chat(tool_calls=[call]),
                   chat(reasoning_content="m"), chat(tool_calls=[more]))  # fmt: skip
    assert said == '[reasoning]\nHmm\n\n[answer]\nLet me\n\n[call of weather]\n{"city": "Oslo"}'


def test_of_several_answers_each_is_whole() -> None:
    both = [{"choices": [{"index": at % 2, "delta": {"content": each}}]} for at, each in
            enumerate("abcd")]  # fmt: skip
    assert text_of(*both) == "[answer]\nac\n\n[answer 2]\nbd"


def test_anthropics_words() -> None:
    def delta(index: int, **said: str) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": said}

    tool = {"type": "tool_use", "name": "look_up"}
    assert text_of(
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        delta(0, type="thinking_delta", thinking="Hm"),
        delta(1, type="text_delta", text="Yes"),
        {"type": "content_block_start", "index": 2, "content_block": tool},
        delta(2, type="input_json_delta", partial_json="{}"),
    ) == "[reasoning]\nHm\n\n[answer]\nYes\n\n[call of look_up]\n{}"  # fmt: skip


def test_the_words_of_the_responses_api() -> None:
    item = {"type": "function_call", "name": "look_up"}
    assert text_of(
        {"type": "response.output_text.delta", "delta": "Yes"},
        {"type": "response.output_item.added", "output_index": 1, "item": item},
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{}"},
    ) == "[answer]\nYes\n\n[call of look_up]\n{}"  # fmt: skip


def test_an_error_in_the_stream_is_part_of_it() -> None:
    assert text_of(chat(content="half"), {"error": {"message": "out of memory"}}) == (
        '[answer]\nhalf\n\n[error]\n{"message": "out of memory"}'
    )


@pytest.mark.parametrize(
    "event", [[1], "text", {"choices": 3}, {"choices": [{"delta": {"content": 5}}]},
              {"choices": [{"index": "x", "delta": {"tool_calls": [{"function": None}]}}]},
              {"type": "content_block_delta", "delta": "x"}, {"type": ["x"], "index": {}}],
)  # fmt: skip
def test_what_is_not_understood_is_kept_as_it_came(event: Any) -> None:
    assert json.dumps(event) in text_of(event)


def test_what_is_too_long_is_counted() -> None:
    found = Transcript(6)
    for word in ("One ", "two ", "3"):
        found.add_piece(b"data: " + json.dumps(chat(content=word)).encode() + b"\n\n")
    assert (found.text, found.left_out) == ("One ", 5)

    endless = Transcript(10)
    for _ in range(3):
        endless.add_piece(b"data: " + b"x" * (LONGEST_LINE // 2))
    assert endless.left_out > LONGEST_LINE
