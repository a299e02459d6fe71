"""How a question is answered: in words, or as marks in the question say.

    [[tokens N]]      N tokens            [[slow-first S]]  S seconds before the first
    [[pace N]]        N tokens a second   [[reason N]]      N tokens of reasoning first
    [[refuse STATUS]] an HTTP error       [[error]]         an error in mid-stream
    [[drop]]          connection broken   [[hang]]          silence in mid-stream
    [[end]]           no [DONE]           [[tool]]          a call of the first tool
    [[markdown]]      every kind of it    [[markup]]        what must not become HTML
    [[think]]         reasoning in <think> within the text

A question that is JSON is a Script. `stop`, `max_tokens`, `tools`, `logprobs` and a JSON schema in
`response_format` are obeyed; pictures are counted in the answer.
"""

import itertools
import json
import os
import re
import time
import uuid
from typing import Any

from tests.scripted_engine import EngineScript, words

MARK = re.compile(r"\[\[([a-z-]+)(?: ([^\]]*))?\]\]")
PACE = float(os.environ.get("ENGINE_TOKENS_PER_SECOND", "0"))  # 0: as fast as it can
WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "and",
    "then",
    "goes",
    "on",
    "its",
    "way",
]
REASONING_FIELD = {
    "vllm": "reasoning",
    "sglang": "reasoning_content",
    "llamacpp": "reasoning_content",
}
MARKDOWN = """\
## A heading

Some **bold**, *italic* and `code`, a [link](https://example.com/) and a list:

1. one
2. two

| name | value |
|------|-------|
| a    | 1     |

```python
def answer(question: str) -> str:
    return f"You said: {question}"
```
"""
MARKUP = """\
<b data-hx-get="/logout/" hx-get="/logout/" hx-trigger="load">bold</b>
<img src="https://example.com/x.png" onerror="alert(1)"><script>alert(1)</script>
<form action="/logout/" method="post"><button>press</button></form>
<style>body { display: none }</style><a href="javascript:alert(1)" id="main">link</a>
"""


def script(body: dict[str, Any], *, flavor: str, model: str) -> EngineScript:
    question = words(body["messages"][-1].get("content"))
    common = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion.chunk",
        "created": int(time.time()),
        "model": model,
    }
    if question.startswith("{"):
        played = EngineScript.of(question)
        played.common = common
        return played
    marks = {name: value or "" for name, value in MARK.findall(question)}
    if "refuse" in marks:
        status = int(marks["refuse"] or 400)
        return EngineScript(
            deltas=[],
            status=status,
            error=_error(flavor, "This model's maximum context length is 512 tokens.", status),
            content_type="application/json",
        )
    deltas, finish = _deltas(question, marks, body, flavor)
    pace = float(marks.get("pace") or PACE)
    played = EngineScript(
        deltas=deltas,
        delay=1 / pace if pace else 0.0,
        first_delay=float(marks.get("slow-first") or 0),
        finish=finish,
        usage=bool((body.get("stream_options") or {}).get("include_usage")),
        common=common,
    )
    _break(played, marks, flavor)
    return played if body.get("stream") else _whole(played)


def _deltas(
    question: str, marks: dict[str, str], body: dict[str, Any], flavor: str
) -> tuple[list[dict[str, Any]], str]:
    thoughts = _words(int(marks.get("reason") or 0))
    deltas: list[dict[str, Any]] = [{REASONING_FIELD[flavor]: word} for word in thoughts]
    if "tool" in marks and body.get("tools"):
        return deltas + _tool_call(body["tools"][0]["function"]["name"]), "tool_calls"
    if "markdown" in marks:
        said = _tokens(MARKDOWN)
    elif "markup" in marks:
        said = _tokens(MARKUP)
    elif "tokens" in marks:
        said = _words(int(marks["tokens"]))
    else:
        said = _tokens(f"You said: {MARK.sub('', question).strip()}")
    if "think" in marks:
        said = ["<think>", *_words(5), "</think>\n\n", *said]
    if schema := ((body.get("response_format") or {}).get("json_schema") or {}).get("schema"):
        said = _tokens(json.dumps(_example(schema)))
    said = _until_stop(said, body.get("stop"))
    deltas += [_delta(token, body) for token in said]
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    if limit and len(deltas) > limit:
        return deltas[:limit], "length"
    return deltas, "stop"


def _delta(token: str, body: dict[str, Any]) -> dict[str, Any]:
    if not body.get("logprobs"):
        return {"content": token}
    others = [{"token": f"other{n}", "logprob": -2.0 - n} for n in range(body["top_logprobs"])]
    own = {"token": token, "logprob": -0.1}
    return {"content": token, "logprobs": {"content": [own | {"top_logprobs": [own, *others]}]}}


def _example(schema: dict[str, Any]) -> Any:
    """The simplest value that is what the schema says, of the schemas that tests use."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: _example(each) for name, each in schema.get("properties", {}).items()}
        case "array":
            return [_example(schema.get("items", {}))]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
    return "text"


def _until_stop(said: list[str], stop: str | list[str] | None) -> list[str]:
    text = "".join(said)
    ends = [text.find(each) for each in ([stop] if isinstance(stop, str) else stop or []) if each]
    found = [end for end in ends if end >= 0]
    return _tokens(text[: min(found)]) if found else said


def _tool_call(name: str) -> list[dict[str, Any]]:
    pieces = ['{"city"', ': "Br', 'no"}']
    first = {"index": 0, "id": "call_1", "type": "function"}
    return [
        {"tool_calls": [{**first, "function": {"name": name, "arguments": ""}}]},
        *({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces),
    ]


def _break(played: EngineScript, marks: dict[str, str], flavor: str) -> None:
    """Whatever goes wrong goes wrong in the middle."""
    for mark in ("drop", "hang", "end"):
        if mark in marks:
            played.then = mark
            played.deltas = played.deltas[: max(1, len(played.deltas) // 2)]
    if "error" in marks:
        played.deltas = played.deltas[: max(1, len(played.deltas) // 2)]
        found = _error(flavor, "EngineCore encountered an issue.", 500)
        played.error = found.get("error", found)


def _error(flavor: str, message: str, code: int) -> dict[str, Any]:
    kind = "BadRequestError" if code < 500 else "InternalServerError"
    if flavor == "sglang":
        return {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    if flavor == "llamacpp":
        return {"error": {"code": code, "message": message, "type": "invalid_request_error"}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _whole(played: EngineScript) -> EngineScript:
    """The same as one JSON answer, for a request that does not stream."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for delta in played.deltas:
        for name, text in delta.items():
            if isinstance(text, str):
                message[name] = (message.get(name) or "") + text
    count = len(played.deltas)
    answer = {
        **played.common,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": played.finish}],
        "usage": {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 7 + count},
    }
    return EngineScript(deltas=[], error=answer, content_type="application/json")


def _tokens(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+$", text)


def _words(count: int) -> list[str]:
    return [word + " " for word in itertools.islice(itertools.cycle(WORDS), count)]
