"""An answer of chat completions, in the words of the Messages API."""

import json
import uuid
from typing import Any

from servers.gateway.callers import TYPES

type Json = dict[str, Any]

_STOPS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


class NotTranslatedError(Exception):
    """The engine's answer is none of chat completions, or cannot be said; the text says why."""


def translate_response(body: bytes) -> bytes:
    """A whole chat completion. Raises NotTranslatedError."""
    said = read_object(body)
    choice = _first(said.get("choices"))
    message = choice.get("message")
    if not isinstance(message, dict):
        raise NotTranslatedError("The engine’s answer is no chat completion.")
    finish = choice.get("finish_reason")
    content: list[Json] = []
    if thoughts := read_thoughts(message):
        content.append({"type": "thinking", "thinking": thoughts, "signature": ""})
    if isinstance(text := message.get("content") or message.get("refusal"), str) and text:
        content.append({"type": "text", "text": text})
    for call in message.get("tool_calls") or []:
        # What was cut off is no call: its arguments would be other ones than the model meant.
        if (block := _call(call, is_cut=finish == "length")) is not None:
            content.append(block)
    has_call = any(block["type"] == "tool_use" for block in content)
    answer = begin_message(said) | {"content": content, "usage": translate_usage(said)}
    return dump(answer | translate_stop(choice, has_call=has_call))


def begin_message(said: Json) -> Json:
    """What an answer begins with; `said` is a completion, or the first chunk of one."""
    return {
        "id": f"msg_{said.get('id') or uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": str(said.get("model") or ""),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": translate_usage(said),
    }


def translate_stop(choice: Json, *, has_call: bool) -> Json:
    finish = choice.get("finish_reason")
    reason = _STOPS.get(str(finish), "end_turn")
    # vLLM and SGLang say which text ended it; a number there is a token.
    matched = choice.get("stop_reason") or choice.get("matched_stop")
    if has_call and reason == "end_turn":
        reason = "tool_use"  # a call that was forced ends with "stop"
    elif reason == "end_turn" and isinstance(matched, str):
        return {"stop_reason": "stop_sequence", "stop_sequence": matched}
    return {"stop_reason": reason, "stop_sequence": None}


def translate_usage(said: Json) -> Json:
    """Tokens; 0 where the engine has said nothing yet. What came from the cache is counted apart."""
    usage, timings = said.get("usage"), said.get("timings")
    if isinstance(usage, dict):
        details = usage.get("prompt_tokens_details")
        cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
        read, written = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
        read = max(0, read - cached)
    elif isinstance(timings, dict):  # llama.cpp's
        cached = _count(timings.get("cache_n"))
        read, written = _count(timings.get("prompt_n")), _count(timings.get("predicted_n"))
    else:
        read = written = cached = 0
    return {
        "input_tokens": read,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }


def translate_count(body: bytes) -> bytes:
    """What /tokenize has counted. Raises NotTranslatedError."""
    count = read_object(body).get("count")
    if not isinstance(count, int) or isinstance(count, bool):
        raise NotTranslatedError("The engine’s /tokenize gives no count.")
    return dump({"input_tokens": count})


def translate_error(status: int, body: bytes) -> bytes:
    """An engine's own refusal, with its own words."""
    try:
        said: object = json.loads(body)
    except (ValueError, RecursionError):
        said = body.decode(errors="replace").strip()
    return say_error(status, find_message(said) or f"The engine answered {status}.")


def say_error(status: int, message: str) -> bytes:
    kind = TYPES.get(status, "api_error")
    return dump({"type": "error", "error": {"type": kind, "message": message}})


def find_message(said: object) -> str:
    """What an error says, in any engine's shape; "" where it says nothing."""
    if isinstance(said, str):
        return said
    if isinstance(said, dict):
        for name in ("error", "message", "detail"):
            if found := find_message(said.get(name)):
                return found
        return ""
    if isinstance(said, list) and said:
        return dump(said).decode()  # FastAPI's list of what is wrong
    return ""


def read_object(body: bytes) -> Json:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NotTranslatedError(f"The engine’s answer is no JSON: {error}.") from error
    if not isinstance(said, dict):
        raise NotTranslatedError("The engine’s answer is no JSON object.")
    return said


def read_thoughts(message: Json) -> str:
    thoughts = message.get("reasoning") or message.get("reasoning_content")
    return thoughts if isinstance(thoughts, str) else ""


def dump(said: object) -> bytes:
    try:
        return json.dumps(said, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a character, which JSON can say and UTF-8 cannot
        return json.dumps(said).encode()


def make_call_id() -> str:
    return f"toolu_{uuid.uuid4().hex}"


def _call(call: object, *, is_cut: bool) -> Json | None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        raise NotTranslatedError("The engine’s call of a tool names no function.")
    name, arguments = function.get("name"), function.get("arguments") or "{}"
    try:
        given = arguments if isinstance(arguments, dict) else json.loads(arguments)
    except (ValueError, TypeError, RecursionError):
        given = None
    if isinstance(given, dict) and isinstance(name, str):
        found = call.get("id")
        number = found if isinstance(found, str) and found else make_call_id()
        return {"type": "tool_use", "id": number, "name": name, "input": given}
    if is_cut:
        return None
    raise NotTranslatedError(
        f"The model called {name!r:.60} with arguments that are no JSON object: {arguments!r:.200}."
    )


def _first(choices: object) -> Json:
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
