"""An answer of chat completions, whole or event by event, in the words of the Messages API."""

import json
import uuid
from dataclasses import dataclass
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


LONGEST_LINE = 1 << 20  # bytes of one event; no engine's token is as long


class MessagesStream:
    """Hears the engine's bytes in pieces cut anywhere, and keeps no more than one line of them."""

    def __init__(self) -> None:
        self._rest = b""
        self._has_begun = False
        self._choice: Json | None = None  # the one with the reason of the end
        self._usage: Json = {}
        self._open: _Block | None = None
        self._blocks = 0
        self._calls: set[object] = set()  # those that have begun
        # Of a call whose name is still to come.
        self._number = ""
        self.has_ended = False
        self.error = ""  # why it ended without a message's end

    def hear(self, piece: bytes) -> bytes:
        """Whole events, as far as they can be said; b"" where there is none yet."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        said = b"".join(self._line(line.rstrip(b"\r")) for line in lines if not self.has_ended)
        if len(self._rest) > LONGEST_LINE and not self.has_ended:
            self._rest = b""
            said += self._break("The engine sent an event of more than 1 MiB.")
        return said

    def end(self) -> bytes:
        """What is still to be said when the engine has sent all. Not every one sends [DONE]."""
        said = b"" if self.has_ended or not self._rest else self._line(self._rest.rstrip(b"\r"))
        if self.has_ended:
            return said
        if self._choice is None:
            return said + self._break("The engine ended its answer without saying why.")
        return said + self._finish()

    def _line(self, line: bytes) -> bytes:
        # An event of chat completions is one line of data. Comments keep the connection alive.
        if line.startswith(b":"):
            return _event("ping", {}) if self._has_begun else b""
        if not line.startswith(b"data:"):
            return b""
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            return self.end() if self._choice is not None else b""
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            return self._break("The engine sent an event that is no JSON.")
        return self._chunk(said) if isinstance(said, dict) else b""

    def _chunk(self, said: Json) -> bytes:
        if said.get("error") or said.get("object") == "error":
            return self._break(find_message(said) or "The engine broke its answer off.")
        events = b""
        if not self._has_begun:
            self._has_begun = True
            events += _event("message_start", {"message": begin_message(said)})
        if isinstance(said.get("usage"), dict) or isinstance(said.get("timings"), dict):
            # The counts win: llama.cpp sends both.
            known = self._usage if "usage" in self._usage else {}
            self._usage = known | {
                name: said[name]
                for name in ("usage", "timings")
                if isinstance(said.get(name), dict)
            }
        for choice in said.get("choices") or []:
            if not isinstance(choice, dict) or choice.get("index") not in (0, None):
                continue
            delta = choice.get("delta")
            if isinstance(delta, dict):
                events += self._delta(delta)
            if self.has_ended:
                return events
            if choice.get("finish_reason"):
                self._choice = choice
        return events

    def _delta(self, delta: Json) -> bytes:
        events = b""
        if thoughts := read_thoughts(delta):
            events += self._say("thinking", {"thinking": "", "signature": ""})
            events += self._add({"type": "thinking_delta", "thinking": thoughts})
        text = delta.get("content") or delta.get("refusal")
        # Between calls some engines send line breaks, which are no words of the answer.
        if isinstance(text, str) and text and not (self._calls and not text.strip()):
            events += self._say("text", {"text": ""})
            events += self._add({"type": "text_delta", "text": text})
        for call in delta.get("tool_calls") or []:
            if isinstance(call, dict) and not self.has_ended:
                events += self._call(call)
        return events

    def _call(self, call: Json) -> bytes:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        number = call["id"] if isinstance(call.get("id"), str) else ""
        name, arguments = function.get("name"), function.get("arguments")
        key = call.get("index")
        if not isinstance(key, int):
            # Some count none: a piece without an id goes on with the last call.
            key = number or (self._open.key if self._open else None)
        if key not in self._calls:
            if not (isinstance(name, str) and name):
                if arguments:
                    return self._break("The engine sent arguments of a call without its name.")
                self._number = number
                return b""
            self._calls.add(key)
            number, self._number = number or self._number or make_call_id(), ""
            events = self._begin("tool_use", {"id": number, "name": name, "input": {}}, key)
        elif self._open is None or self._open.key != key:
            # A block that has ended does not begin again in this API.
            return self._break("The engine mixed the arguments of two calls.")
        else:
            events = b""
        if isinstance(arguments, str) and arguments:
            events += self._add({"type": "input_json_delta", "partial_json": arguments})
        return events

    def _say(self, kind: str, more: Json) -> bytes:
        """Go on with the block of this kind, or begin one."""
        if self._open is not None and self._open.kind == kind:
            return b""
        return self._begin(kind, more)

    def _begin(self, kind: str, more: Json, key: object = None) -> bytes:
        events = self._close()
        self._open = _Block(kind, self._blocks, key)
        self._blocks += 1
        block = {"type": kind, **more}
        return events + _event(
            "content_block_start", {"index": self._open.index, "content_block": block}
        )

    def _add(self, delta: Json) -> bytes:
        assert self._open is not None
        return _event("content_block_delta", {"index": self._open.index, "delta": delta})

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        index, self._open = self._open.index, None
        return _event("content_block_stop", {"index": index})

    def _finish(self) -> bytes:
        self.has_ended = True
        usage = translate_usage(self._usage)
        stop = translate_stop(self._choice or {}, has_call=bool(self._calls))
        return (
            self._close()
            + _event("message_delta", {"delta": stop, "usage": usage})
            + _event("message_stop", {})
        )

    def _break(self, message: str) -> bytes:
        """The stream's last event: what has come is no whole answer."""
        self.has_ended, self.error = True, message
        return b"event: error\ndata: " + say_error(500, message) + b"\n\n"


@dataclass(frozen=True)
class _Block:
    kind: str
    index: int
    key: object  # of a call; None: it is none


def _event(kind: str, said: Json) -> bytes:
    return f"event: {kind}\ndata: ".encode() + dump({"type": kind, **said}) + b"\n\n"
