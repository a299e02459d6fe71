"""One question to an engine's chat API, answered in full: what it said, and how fast."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from servers.host.http import connections
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint, EngineError

LONGEST_TEXT, LONGEST_FINISH = 2000, 40  # characters of an answer that are kept
MOST_TOKENS = 1_000_000  # what an engine claims beyond that is no count
# Bytes of a stream for some tens of tokens: whoever sends more does not obey max_tokens.
MOST_BYTES = 1024 * 1024
# Pieces from which on a rate says something.
FEWEST_PIECES = 8
# Seconds of the half that is measured: pieces that were held up and come all at once say nothing.
SHORTEST = 0.02


@dataclass(frozen=True, kw_only=True)
class CompletionResult:
    """Seconds, and tokens as the engine counts them, or as pieces that arrived.

    `text` is the answer, or the reasoning where it came no further (`is_reasoning`). `finish` is
    "" where the answer broke off, which `error` explains in a sentence; `status` is the HTTP
    status of a refusal. `rate` is tokens a second over the second half of the answer, because
    engines compile on the way to their first tokens; None: too few, or too many at once, to tell.
    """

    text: str = ""
    is_reasoning: bool = False
    tokens: int = 0
    finish: str = ""
    first_token: float | None = None
    rate: float | None = None
    error: str = ""
    status: int | None = None


def ask(
    endpoint: Endpoint, model: str, question: str, *, most: int, limit: float
) -> CompletionResult:
    """Ask for `most` tokens at temperature 0, within `limit` seconds. Never raises: an engine
    that refuses, breaks off or is too slow has given its answer by that."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": most,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return connections.waited_for(_post(endpoint, body, limit))


async def _post(endpoint: Endpoint, body: dict[str, Any], limit: float) -> CompletionResult:
    clock = asyncio.get_running_loop().time
    heard = _StreamedAnswer(began=clock())
    error, status = "", None
    try:
        async with asyncio.timeout(limit), aclosing(probes.chat(endpoint, body)) as pieces:
            async for event in _events(pieces):
                heard.take(event, clock())
    except TimeoutError:
        begun = "finished" if heard.times else "begun"
        error = f"It had not {begun} to answer after {limit:.0f} s."
    except EngineError as exc:
        error, status = str(exc), exc.status
    return heard.answer(error or heard.error, status)


async def _events(pieces: AsyncGenerator[bytes]) -> AsyncGenerator[dict[str, Any]]:
    """The JSON of each event of a stream; what is none is left out, [DONE] ends it."""
    rest, size = bytearray(), 0
    async for piece in pieces:
        size += len(piece)
        if size > MOST_BYTES:
            raise EngineError("It sent far more than it was asked for.")
        rest += piece
        if b"\n" not in piece:
            continue
        *lines, last = bytes(rest).split(b"\n")
        rest = bytearray(last)
        for line in lines:
            data = line.strip().removeprefix(b"data:").strip()
            if not line.startswith(b"data:") or data == b"[DONE]":
                continue
            try:
                event = json.loads(data)
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                yield event


@dataclass(kw_only=True)
class _StreamedAnswer:
    """What of an answer has arrived."""

    began: float
    content: str = ""
    reasoning: str = ""
    times: list[float] = field(default_factory=list)  # when each piece came
    finish: str = ""
    counted: int | None = None
    error: str = ""

    def take(self, event: dict[str, Any], now: float) -> None:
        if "error" in event:
            self.error = f"It broke off: {_words(event['error'])}"
        usage = event.get("usage")
        if isinstance(usage, dict) and isinstance(usage.get("completion_tokens"), int):
            self.counted = usage["completion_tokens"]
        choices = event.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        delta = choices[0].get("delta") or {}
        said = _text(delta.get("content"))
        thought = _text(delta.get("reasoning") or delta.get("reasoning_content"))
        if said or thought or delta.get("tool_calls"):
            self.times.append(now)
        self.content = (self.content + said)[:LONGEST_TEXT]
        self.reasoning = (self.reasoning + thought)[:LONGEST_TEXT]
        self.finish = _text(choices[0].get("finish_reason")) or self.finish

    def answer(self, error: str, status: int | None) -> CompletionResult:
        tokens = len(self.times) if self.counted is None else min(max(self.counted, 0), MOST_TOKENS)
        return CompletionResult(
            text=self.content.strip() or self.reasoning.strip(),
            is_reasoning=not self.content.strip() and bool(self.reasoning.strip()),
            tokens=tokens,
            finish="".join(filter(str.isprintable, self.finish))[:LONGEST_FINISH],
            first_token=round(self.times[0] - self.began, 3) if self.times else None,
            rate=_rate(self.times, tokens),
            error=error,
            status=status,
        )


def _rate(times: Sequence[float], tokens: int) -> float | None:
    """Tokens a second from the middle piece to the last; pieces may hold several tokens."""
    if len(times) < FEWEST_PIECES:
        return None
    middle = len(times) // 2
    span = times[-1] - times[middle]
    pieces = len(times) - 1 - middle
    return round(pieces * tokens / len(times) / span, 1) if span >= SHORTEST else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _words(error: Any) -> str:
    said = error.get("message") if isinstance(error, dict) else error
    return str(said)[:300]
