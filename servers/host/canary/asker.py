"""The asking program of a canary: one question after the other, with its reply in full.

Its standard input has a line of JSON with the target and its limits, then one for each question; it writes a line
for each reply, and ends with its standard input, and when its time is up.
"""

import asyncio
import json
import time
from dataclasses import asdict
from typing import Any

import httpx

from servers.host.benchmarks import orders
from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.process import RequestProcess
from servers.host.benchmarks.requests import BenchmarkTarget
from servers.host.canary.replies import CanaryQuestion, CanaryReply, read_completion, read_stream
from servers.host.http import bounded, connections
from servers.host.runs.probes import describe_refusal

_MOST = 16 * 1024 * 1024  # bytes of a reply; with logprobs a token has some hundred
_SAID = 300  # characters of an error that are kept
# What an engine that refuses a body may not know, in the order in which it is left out, by the word
# of its refusal: vLLM with a tokenizer of Mistral’s speaks of chat_template.
_OPTIONAL = {
    "chat_template": ("chat_template_kwargs",),
    "logprobs": ("logprobs", "top_logprobs"),
    "seed": ("seed",),
    "stream_options": ("stream_options",),
}


class CanaryAsker(RequestProcess):
    """The program, for who wants it: begun by `with`, ended at its end."""

    def __init__(self, target: BenchmarkTarget, limits: LoadLimits) -> None:
        super().__init__(target, limits, "servers.host.canary.asker")

    def ask(self, question: CanaryQuestion) -> CanaryReply:
        """Raises GeneratorError where the process ends before, as after stop(), and LoadLimitError
        where its time is up."""
        self._write(asdict(question))
        return CanaryReply.from_json(next(self._read()))


async def send_question(
    client: httpx.AsyncClient, target: BenchmarkTarget, question: CanaryQuestion
) -> CanaryReply:
    """Never raises: what fails has its reason in `error`.

    Engines refuse a body for what they do not know of it: it is sent again without.
    """
    body = question.build_body(target.model)
    reply = await _send(client, target, body)
    for word, names in _OPTIONAL.items():
        if reply.status not in (httpx.codes.BAD_REQUEST, httpx.codes.UNPROCESSABLE_ENTITY):
            break
        if word in reply.error and names[0] in body:
            body = {name: value for name, value in body.items() if name not in names}
            reply = await _send(client, target, body)
    return reply


async def _send(
    client: httpx.AsyncClient, target: BenchmarkTarget, body: dict[str, Any]
) -> CanaryReply:
    kind = "text/event-stream" if body["stream"] else "application/json"
    wants = {"accept": kind, "accept-encoding": "identity"}
    request = target.build_request(client, body, wants)
    sent = time.monotonic()
    try:
        response = await connections.send(request, client)
        try:
            said = await bounded.begin(response, _MOST)
        finally:
            await connections.let_go(response)
        if response.status_code != httpx.codes.OK:
            error = f"HTTP {response.status_code}: {describe_refusal(said)}"[:_SAID]
            return CanaryReply(error=error, status=response.status_code)
        took = time.monotonic() - sent
        if body["stream"] and said.lstrip()[:1] != b"{":
            return read_stream(said, took)
        return read_completion(json.loads(said), took)
    except httpx.TransportError as failed:
        return CanaryReply(error=f"the connection was lost ({type(failed).__name__})")
    except (ValueError, RecursionError):
        return CanaryReply(error="the answer is no chat completion")


async def _serve() -> None:
    target, limits = await orders.begin()
    questions: asyncio.Queue[CanaryQuestion] = asyncio.Queue()
    orders.follow(lambda said: questions.put_nowait(_read_question(said)))
    async with connections.make_client(httpx.Limits()) as client:
        for _question in range(limits.requests):
            reply = await send_question(client, target, await questions.get())
            orders.write(reply.to_json())


def _read_question(said: dict[str, Any]) -> CanaryQuestion:
    return CanaryQuestion(**{**said, "messages": tuple(said["messages"])})


if __name__ == "__main__":
    asyncio.run(_serve())
