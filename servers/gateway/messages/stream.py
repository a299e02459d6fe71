"""A stream of chat completions, event by event in the words of the Messages API."""

import json
from dataclasses import dataclass

from servers.gateway.messages.response import (
    Json,
    begin_message,
    dump,
    find_message,
    make_call_id,
    read_thoughts,
    say_error,
    translate_stop,
    translate_usage,
)

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
