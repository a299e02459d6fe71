"""Anthropic's Messages API for engines that speak chat completions alone.

A request is translated on its way in, the answer on its way back, a stream event by event. Engines
that speak Messages themselves are asked as they are: nothing of this is used then.
"""

import json
from dataclasses import dataclass

from servers.gateway.messages import request, response
from servers.host.runs.probes import CHAT_PATH

MESSAGES = "/v1/messages"
COUNT_TOKENS = "/v1/messages/count_tokens"
PATHS = (MESSAGES, COUNT_TOKENS)


@dataclass(frozen=True, kw_only=True)
class Translation:
    """One request of the Messages API, as the engine is asked."""

    path: str
    body: bytes
    is_stream: bool

    def translate_answer(self, body: bytes) -> bytes:
        """A whole answer of the engine. Raises NotTranslatedError."""
        if self.path == CHAT_PATH:
            return response.translate_response(body)
        return response.translate_count(body)


def translate(path: str, said: response.Json, *, model: str, engine: str) -> Translation:
    """`model` is what the engine calls it. Raises Refusal for what chat completions cannot say."""
    if path == COUNT_TOKENS:
        to, body = "/tokenize", request.translate_count(said)
    else:
        to, body = CHAT_PATH, request.translate_request(said, engine)
    text = json.dumps(body | {"model": model})
    return Translation(path=to, body=text.encode(), is_stream=body.get("stream") is True)
