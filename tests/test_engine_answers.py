"""What the tests' engine answers, without its process."""

import json
from typing import Any

from tests.engine import answers


def asked(content: Any, **more: Any) -> list[dict[str, Any]]:
    """The deltas with which a vLLM answers."""
    body = {"messages": [{"role": "user", "content": content}], "stream": True, **more}
    return answers.script(body, flavor="vllm", model="m").deltas


def text(deltas: list[dict[str, Any]]) -> str:
    return "".join(delta.get("content", "") for delta in deltas)


def test_a_schema_is_obeyed() -> None:
    items = {"type": "array", "items": {"type": "integer", "minimum": 3}}
    schema = {"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "numbers": items}}

    said = asked("x", response_format={"type": "json_schema", "json_schema": {"schema": schema}})

    assert json.loads(text(said)) == {"kind": "a", "numbers": [3]}


def test_probabilities_come_with_their_tokens() -> None:
    first = asked("hello", logprobs=True, top_logprobs=2)[0]

    assert first["logprobs"]["content"][0]["token"] == first["content"]
    assert len(first["logprobs"]["content"][0]["top_logprobs"]) == 3


def test_pictures_are_acknowledged_and_thoughts_stand_in_the_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    assert text(asked([{"type": "text", "text": "See"}, picture])) == "You said: See (1 pictures)"
    assert text(asked("[[think]] why")).startswith("<think>the quick")
