"""One benchmark request: sent, and its stream stamped event by event."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from servers.host.benchmarks.streams import EngineStreams
from servers.host.benchmarks.timings import RequestTiming
from servers.host.http import connections
from servers.host.http.wire import Way

type Message = dict[str, str]

_LINE = 1024 * 1024  # bytes of one event; no engine sends as much
_SAID = 300  # characters of an error that are kept


@dataclass(frozen=True, kw_only=True)
class BenchmarkTarget:
    """A server's chat address, and what its requests carry."""

    url: str  # with /v1/chat/completions
    model: str
    headers: Mapping[str, str]
    via: Way | None = None  # None: it is on this machine

    def build_request(
        self, client: httpx.AsyncClient, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> httpx.Request:
        return client.build_request(
            "POST",
            self.url,
            json=body,
            headers={**self.headers, **headers},
            extensions=dict(connections.lead(self.via)),
        )


def build_body(
    target: BenchmarkTarget, messages: Sequence[Message], output_tokens: int
) -> dict[str, Any]:
    """Greedy, of fixed length: `ignore_eos` and `min_tokens` are vLLM's, SGLang's and llama.cpp's."""
    return {
        "model": target.model,
        "messages": list(messages),
        "max_tokens": output_tokens,
        "min_tokens": output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def send_timed(
    streams: EngineStreams,
    body: Mapping[str, Any],
    planned: float | None,
    heard: list[str] | None = None,
) -> RequestTiming:
    """Never raises: a request that fails has its reason in `error`. `planned` None: now. `heard`
    gets the answer's text."""
    reader = _EventReader(heard)
    request = streams.write(body)
    sent = time.monotonic()
    try:
        status, said = await streams.ask(request, reader.hear)
        if status != httpx.codes.OK:
            reader.error = f"HTTP {status}: {said}"
    except (httpx.TransportError, ValueError) as failed:
        reader.error = f"{type(failed).__name__}: {failed}"[:_SAID]
    if not reader.stamps and not reader.error:
        reader.error = "The answer has no text."
    return RequestTiming(
        planned=sent if planned is None else planned,
        sent=sent,
        stamps=tuple(reader.stamps),
        first_visible=reader.first_visible,
        error=reader.error,
        **reader.counts,
    )


class _EventReader:
    """What the events of one answer say, as they come."""

    def __init__(self, heard: list[str] | None) -> None:
        self.stamps: list[float] = []
        self.counts: dict[str, int | None] = {}
        self.first_visible: float | None = None
        self.error = ""
        self._heard, self._rest = heard, b""

    def hear(self, now: float, piece: bytes) -> None:
        """Raises ValueError for an event that is no JSON."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LINE:
            raise ValueError("An event is longer than 1 MiB.")
        for line in lines:
            data = line.strip()
            if not data.startswith(b"data:"):
                continue
            data = data.removeprefix(b"data:").strip()
            if data != b"[DONE]":
                event = json.loads(data)
                if isinstance(event, dict):
                    self._read(now, event)

    def _read(self, now: float, event: dict[str, Any]) -> None:
        if "error" in event:
            self.error = str(event["error"])[:_SAID]
        if event.get("usage"):
            self.counts |= _read_usage(event)
        said, is_visible = _find_text(event)
        if not said:
            return
        self.stamps.append(now)
        if is_visible and self.first_visible is None:
            self.first_visible = now
        if self._heard is not None:
            self._heard.append(event["choices"][0]["delta"].get("content") or "")


def _find_text(event: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether it carries text, and whether a reader sees that. An event with a role alone, with
    which vLLM begins, carries none."""
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return False, False
    delta = choices[0].get("delta") or {}
    is_visible = bool(delta.get("content") or delta.get("tool_calls"))
    return is_visible or bool(delta.get("reasoning") or delta.get("reasoning_content")), is_visible


def _read_usage(event: Mapping[str, Any]) -> dict[str, int | None]:
    usage = event.get("usage")
    if not isinstance(usage, dict):
        return {}
    details = usage.get("prompt_tokens_details")
    told = {
        "prompt_tokens": usage.get("prompt_tokens"),
        "output_tokens": usage.get("completion_tokens"),
        "cached_tokens": details.get("cached_tokens") if isinstance(details, dict) else None,
    }
    return {name: count for name, count in told.items() if isinstance(count, int) and count >= 0}
