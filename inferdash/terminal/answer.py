"""An answer of an engine while it comes: its pieces, what it is in the end, and how fast it was."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from typing import Any

from inferdash.terminal.api import FAILED, TerminalError, sentence_of

THINKS, SPEAKS = "reasoning", "content"
# Engines without a reasoning parser leave these in the text.
_OPEN, _CLOSE = "<think>", "</think>"
_CUT_OFF = "The answer was cut off: the connection ended before it did."


@dataclass
class ChatAnswer:
    """What has come so far. `at` is the clock's, in seconds."""

    began: float = field(default_factory=time.monotonic)
    first: float | None = None
    last: float | None = None
    model: str = ""
    text: str = ""
    finish: str = ""  # stop, length, tool_calls …
    usage: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)  # names of tools that it wants called

    def pieces(self, response: HTTPResponse) -> Iterator[tuple[str, str]]:
        """THINKS or SPEAKS, with a text. Raises Problem where the answer breaks off."""
        split, is_whole = _Split(), False
        for said in _events(response):
            if said is None:
                is_whole = True
                continue
            if said.get("error"):
                raise TerminalError(
                    sentence_of(said) or "The engine says that it failed.", code=FAILED
                )
            for kind, text in self._parse(said):
                yield from self._keep(split.split(text) if kind == SPEAKS else [(kind, text)])
        yield from self._keep(split.rest())
        if not is_whole and not self.finish:
            raise TerminalError(_CUT_OFF, "Its server’s page in inferdash says why.", code=FAILED)

    def _parse(self, said: dict[str, Any]) -> Iterator[tuple[str, str]]:
        self.model = said.get("model") or self.model
        self.usage = said.get("usage") or self.usage
        for choice in said.get("choices") or ():
            self.finish = choice.get("finish_reason") or self.finish
            delta = choice.get("delta") or {}
            for call in delta.get("tool_calls") or ():
                self._came()
                if name := (call.get("function") or {}).get("name"):
                    self.calls.append(name)
            if thought := delta.get("reasoning") or delta.get("reasoning_content"):
                self._came()
                yield THINKS, thought
            if content := delta.get("content"):
                self._came()
                yield SPEAKS, content

    def _came(self) -> None:
        self.last = time.monotonic()
        if self.first is None:
            self.first = self.last

    def _keep(self, pieces: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        for kind, text in pieces:
            if kind == SPEAKS:
                self.text += text
            yield kind, text

    @property
    def figures(self) -> str:
        """ "first token 0.3 s, 52.1 tok/s, 128 tokens"; what is not known is left out."""
        parts = []
        if self.first is not None:
            parts.append(f"first token {self.first - self.began:.2f} s")
        tokens = self.usage.get("completion_tokens")
        if tokens:
            span = (self.last or 0) - (self.first or 0)
            if tokens > 1 and span > 0:
                # The first token is waited for, not made at that pace.
                parts.append(f"{(tokens - 1) / span:.1f} tok/s")
            parts.append(f"{tokens} tokens for {self.usage.get('prompt_tokens', '?')}")
        if self.finish == "length":
            parts.append("cut off at its limit of tokens")
        if self.calls:
            parts.append(f"it wants to call {', '.join(self.calls)}, which nobody does here")
        return ", ".join(parts)


class _Split:
    """Reasoning that stands in the text itself, taken out of it while it comes."""

    def __init__(self) -> None:
        self._mode = "start"  # start, thinking, after, speaking
        self._held = ""

    def split(self, text: str) -> list[tuple[str, str]]:
        if self._mode == "speaking":
            return [(SPEAKS, text)]
        self._held += text
        made: list[tuple[str, str]] = []
        if self._mode == "start":
            begun = self._held.lstrip()
            if _OPEN.startswith(begun[: len(_OPEN)]) and len(begun) < len(_OPEN):
                return []
            if not begun.startswith(_OPEN):
                return self._speak()
            self._mode, self._held = "thinking", begun[len(_OPEN) :]
        if self._mode == "thinking":
            thought, closed, rest = self._held.partition(_CLOSE)
            if not closed:
                return self._think()
            made = [(THINKS, thought)] if thought else []
            self._mode, self._held = "after", rest
        self._held = self._held.lstrip()
        return made + self._speak() if self._held else made

    def _think(self) -> list[tuple[str, str]]:
        # The end of it may be the beginning of the tag that closes.
        cut = len(self._held)
        for length in range(1, len(_CLOSE)):
            if self._held.endswith(_CLOSE[:length]):
                cut = len(self._held) - length
        made, self._held = self._held[:cut], self._held[cut:]
        return [(THINKS, made)] if made else []

    def _speak(self) -> list[tuple[str, str]]:
        self._mode, held, self._held = "speaking", self._held, ""
        return [(SPEAKS, held)]

    def rest(self) -> list[tuple[str, str]]:
        kind = THINKS if self._mode == "thinking" else SPEAKS
        held, self._held = self._held, ""
        return [(kind, held)] if held else []


def _events(response: HTTPResponse) -> Iterator[dict[str, Any] | None]:
    """What a stream of events says; None for its own end."""
    try:
        for line in response:
            name, _colon, value = line.decode(errors="replace").partition(":")
            if name != "data":
                continue
            if value.strip() == "[DONE]":
                yield None
                continue
            try:
                said = json.loads(value)
            except ValueError:
                continue  # half an event, of a stream that is cut off: its end says so
            if isinstance(said, dict):
                yield said
    except (HTTPException, OSError) as error:
        raise TerminalError(
            _CUT_OFF, "Its server’s page in inferdash says why.", code=FAILED
        ) from error
