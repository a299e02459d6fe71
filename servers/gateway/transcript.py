"""An answer that comes as a stream of events, put together to the text that it amounts to."""

import json
from collections import defaultdict
from collections.abc import Iterator
from io import StringIO
from typing import Any

LONGEST_LINE = 1 << 20  # bytes; a longer event is passed over
RAW = 4096  # bytes of the beginning, for a stream that nobody here understands

ANSWER, REASONING = "answer", "reasoning"


class Transcript:
    """Of at most `most` bytes; `left_out` counts those beyond."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        # By what they are, in the order of their beginnings.
        self._parts: defaultdict[str, StringIO] = defaultdict(StringIO)
        self._names: dict[str, str] = {}  # of the functions that calls are of
        self._rest = b""
        self._raw = b""
        self.left_out = 0

    def add_piece(self, piece: bytes) -> None:
        if len(self._raw) < RAW:
            self._raw += piece[: RAW - len(self._raw)]
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self.left_out += len(self._rest)
            self._rest = b""
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:])

    def _event(self, data: bytes) -> None:
        try:
            said = json.loads(data)
        except (ValueError, RecursionError):
            return  # [DONE]
        if isinstance(said, dict):
            for part, text in self._pieces(said):
                self._add(part, text)

    def _add(self, part: str, text: object) -> None:
        if not isinstance(text, str) or not text:
            return
        size = len(text.encode(errors="replace"))
        if self.left_out or self._size + size > self._most:
            self.left_out += size
            return
        self._size += size
        self._parts[part].write(text)

    def _pieces(self, said: dict[str, Any]) -> Iterator[tuple[str, object]]:
        """What it adds, in any of the APIs' words."""
        for choice in _dicts(said.get("choices")):
            index = choice.get("index") or 0
            which = f" {index + 1}" if isinstance(index, int) and index else ""
            yield ANSWER + which, choice.get("text")
            delta = choice.get("delta")
            if isinstance(delta, dict):
                yield from self._delta(delta, which)
        kind, index = said.get("type"), said.get("index", said.get("output_index", 0))
        if kind == "content_block_start" and isinstance(said.get("content_block"), dict):
            self._name(f"call {index}", said["content_block"].get("name"))
        elif kind == "content_block_delta" and isinstance(said.get("delta"), dict):
            delta = said["delta"]
            yield ANSWER, delta.get("text")
            yield REASONING, delta.get("thinking")
            yield f"call {index}", delta.get("partial_json")
        elif kind == "response.output_text.delta":
            yield ANSWER, said.get("delta")
        elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            yield REASONING, said.get("delta")
        elif kind == "response.output_item.added" and isinstance(said.get("item"), dict):
            self._name(f"call {index}", said["item"].get("name"))
        elif kind == "response.function_call_arguments.delta":
            yield f"call {index}", said.get("delta")
        if error := said.get("error"):
            yield "error", json.dumps(error, ensure_ascii=False)

    def _delta(self, delta: dict[str, Any], which: str) -> Iterator[tuple[str, object]]:
        yield REASONING + which, delta.get("reasoning_content") or delta.get("reasoning")
        yield ANSWER + which, delta.get("content")
        yield "refusal" + which, delta.get("refusal")
        for call in _dicts(delta.get("tool_calls")):
            part = f"call {call.get('index', 0)}{which}"
            if isinstance(function := call.get("function"), dict):
                self._name(part, function.get("name"))
                yield part, function.get("arguments")

    def _name(self, part: str, name: object) -> None:
        if isinstance(name, str) and name:
            self._names.setdefault(part, name[:200])

    @property
    def text(self) -> str:
        """The answer; its parts under their names where there are others than the answer alone."""
        texts = {part: said.getvalue() for part, said in self._parts.items()}
        texts = {**texts, **{part: "" for part in self._names if part not in texts}}
        if not texts:
            return self._raw.decode(errors="replace")
        if list(texts) == [ANSWER]:
            return texts[ANSWER]
        return "\n\n".join(f"[{self._title(part)}]\n{text}" for part, text in texts.items())

    def _title(self, part: str) -> str:
        return f"call of {self._names[part]}" if part in self._names else part


def _dicts(said: object) -> list[dict[str, Any]]:
    return [each for each in said if isinstance(each, dict)] if isinstance(said, list) else []
