"""One benchmark request: sent, and its stream stamped event by event."""

import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import httpx

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
    client: httpx.AsyncClient,
    target: BenchmarkTarget,
    body: Mapping[str, Any],
    planned: float | None,
    heard: list[str] | None = None,
) -> RequestTiming:
    """Never raises: a request that fails has its reason in `error`. `planned` None: now. `heard`
    gets the answer's text."""
    request = target.build_request(client, body, {"accept": "text/event-stream"})
    stamps: list[float] = []
    counts: dict[str, int | None] = {}
    first_visible: float | None = None
    error = ""
    sent = time.monotonic()
    try:
        response = await connections.send(request, client)
        try:
            if response.status_code != httpx.codes.OK:
                error = f"HTTP {response.status_code}: {await _read_error(response)}"
            else:
                async with aclosing(_read_events(response)) as events:
                    async for event in events:
                        now = time.monotonic()
                        if "error" in event:
                            error = str(event["error"])[:_SAID]
                        counts |= _read_usage(event)
                        said, is_visible = _find_text(event)
                        if said:
                            stamps.append(now)
                            if is_visible and first_visible is None:
                                first_visible = now
                            if heard is not None:
                                heard.append(event["choices"][0]["delta"].get("content") or "")
        finally:
            await connections.let_go(response)
    except (httpx.TransportError, ValueError) as failed:
        error = f"{type(failed).__name__}: {failed}"[:_SAID]
    if not stamps and not error:
        error = "The answer has no text."
    return RequestTiming(
        planned=sent if planned is None else planned,
        sent=sent,
        stamps=tuple(stamps),
        first_visible=first_visible,
        error=error,
        **counts,
    )


async def _read_error(response: httpx.Response) -> str:
    body = bytearray()
    async for piece in connections.pieces(response):
        body += piece
        if len(body) > _SAID:
            break
    return body[:_SAID].decode(errors="replace")


async def _read_events(response: httpx.Response) -> AsyncGenerator[dict[str, Any]]:
    """Events of the stream as they come. Raises ValueError for one that is no JSON."""
    rest = b""
    async for piece in connections.pieces(response):
        rest += piece
        *lines, rest = rest.split(b"\n")
        if len(rest) > _LINE:
            raise ValueError("An event is longer than 1 MiB.")
        for line in lines:
            data = line.strip()
            if not data.startswith(b"data:"):
                continue
            data = data.removeprefix(b"data:").strip()
            if data != b"[DONE]":
                event = json.loads(data)
                if isinstance(event, dict):
                    yield event


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
