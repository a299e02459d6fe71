"""Capture of requests and answers, and their transcript."""

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.utils import timezone

from servers import events
from servers.gateway.routes import Route
from servers.lifecycle.runs import starts
from servers.models import Capture, CapturedCall, Request, Run

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


# Seconds within which one that is switched on counts.
REMEMBERED = 1.0
HEADER = b"x-inferdash-capture"
# Bytes of a question, and of an answer, that are kept.
MOST = 256 * 1024
# Bytes of a question that are looked at: pictures, which are left out, may fill the others.
LOOKED_AT = 8 * 2**20
# Bytes beyond which are masked, too: else the end could cut a token to a piece of no known shape.
MARGIN = 4096
# Nobody reads them: files as base64, also one whose end is not looked at, and lists of numbers.
_UNREAD = re.compile(
    r'("(?:data:[^",]{0,200},|))([A-Za-z0-9+/=_-]{2000,})("|\Z)|(\[)([\d.eE+,\s-]{2000,})(\]|\Z)'
)


@dataclass(frozen=True, kw_only=True)
class CaptureSwitch:
    """A capture as the gateway remembers it."""

    pk: int
    only: str
    until: datetime

    @property
    def header(self) -> tuple[bytes, bytes]:
        return HEADER, f"until={self.until.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}".encode()

    def is_about(self, route: Route) -> bool:
        return timezone.now() < self.until and (not self.only or self.only in route.names)


class Captures:
    def __init__(self) -> None:
        self._on: list[CaptureSwitch] = []
        self._until = 0.0

    async def look(self) -> None:
        if self._until >= time.monotonic():
            return
        # Before the look: others need not look meanwhile, too.
        self._until = time.monotonic() + REMEMBERED
        self._on = await sync_to_async(_look)()

    def start_recording(
        self, route: Route, asked: bytes, content_type: str
    ) -> "CallRecorder | None":
        """What is to hear the answer; None: nobody keeps it."""
        switched = next((each for each in self._on if each.is_about(route)), None)
        return CallRecorder(switched, asked, content_type) if switched is not None else None


def _look() -> list[CaptureSwitch]:
    return [
        CaptureSwitch(pk=each.pk, only=each.only, until=each.until)
        for each in Capture.objects.active()
    ]


class CallRecorder:
    """One question, and its answer as far as it comes."""

    def __init__(self, switched: CaptureSwitch, asked: bytes, content_type: str) -> None:
        self.switched = switched
        self._asked = asked if not content_type.startswith("multipart/") else b""
        self._asked_size = len(asked)
        self._kind = ""  # of the answer: its content type
        self._heard = b""
        self._left_out = 0
        self._transcript: Transcript | None = None

    def begins(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._kind = dict(headers).get(b"content-type", b"").decode("latin-1").casefold()
        if self._kind.startswith("text/event-stream"):
            self._transcript = Transcript(MOST + MARGIN)

    def add_piece(self, piece: bytes) -> None:
        if self._transcript is not None:
            self._transcript.add_piece(piece)
            return
        room = MOST + MARGIN - len(self._heard) if self._is_text else 0
        self._heard += piece[:room]
        self._left_out += len(piece[room:])

    @property
    def _is_text(self) -> bool:
        return self._kind.startswith("text/") or "json" in self._kind

    def exchange(self, request: Request, run: Run | None) -> CapturedCall:
        """What is kept of it. Takes its time: not for the event loop."""
        seen = self._asked[:LOOKED_AT]
        asked, asked_out = _trim_text(_laid_out(seen), run)
        heard = self._transcript.text if self._transcript else _laid_out(self._heard)
        left_out = self._transcript.left_out if self._transcript else self._left_out
        answered, answered_out = _trim_text(heard, run)
        return CapturedCall(
            request=request,
            capture_id=self.switched.pk,
            asked=asked,
            asked_left_out=asked_out + self._asked_size - len(seen),
            answered=answered,
            answered_left_out=answered_out + left_out,
        )


def _laid_out(said: bytes) -> str:
    """JSON by lines, with its letters as they are read; all else as it is."""
    try:
        text = _lines(json.loads(said), 4 * len(said) + MARGIN)
    except (ValueError, RecursionError):
        text = said.decode(errors="replace")
    return _UNREAD.sub(_left_out, text)


def _lines(said: object, most: int) -> str:
    """Raises ValueError for what is so deep that it grows to more than `most` characters."""
    found = StringIO()
    for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(said):
        if found.tell() > most:
            raise ValueError("Indented it is too long.")
        found.write(piece)
    return found.getvalue()


def _left_out(found: "re.Match[str]") -> str:
    begin, text, end = found.groups()[:3] if found[1] else found.groups()[3:]
    return f"{begin}… ({len(text)} characters are not kept){end}"


def _trim_text(text: str, run: Run | None) -> tuple[str, int]:
    """The beginning, without secrets; and how many bytes are not in it."""
    whole = text.encode(errors="replace")
    seen = whole[: MOST + MARGIN]
    shown = seen.decode(errors="ignore")
    masked = (starts.mask_secrets(run, shown) if run else starts.without_tokens(shown)).encode()
    return masked[:MOST].decode(errors="ignore"), len(whole) - len(seen) + len(masked[MOST:])


def keep(heard: Sequence[tuple[Request, CallRecorder]]) -> None:
    """Write down those whose capture is still on: once it has ended, nothing more is kept."""
    found = Run.objects.select_related("server__box__hf_token", "version", "plan")
    runs = found.in_bulk({row.run_id for row, _recording in heard if row.run_id is not None})
    exchanges = [recording.exchange(row, runs.get(row.run_id or 0)) for row, recording in heard]
    is_full = False
    with transaction.atomic():
        # Locked: what is ended at this moment has ended before, or gets these and no more.
        for capture in Capture.objects.active().select_related(None).select_for_update():
            mine = [each for each in exchanges if each.capture_id == capture.pk]
            if mine:
                CapturedCall.objects.bulk_create(mine)
                size = sum(each.size for each in mine)
                is_full |= Capture.objects.add(capture, len(mine), size)
    if is_full:
        events.publish_change("capture")
    elif exchanges:
        events.publish_change("requests")  # the page that lists them looks again
