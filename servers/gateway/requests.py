"""A request to the gateway: its body, and the model that it names."""

import json
import re
from dataclasses import dataclass, replace

from servers.gateway.asgi import Receive
from servers.gateway.refusal import Refusal

# Bytes. Several pictures in one conversation, base64.
MOST = 64 * 2**20
_FIELD = re.compile(
    rb'content-disposition: form-data; name="model"\r\n(?:content-[^\r\n]*\r\n)*\r\n([^\r\n]{1,300})\r\n',
    re.IGNORECASE,
)


class GoneError(Exception):
    """Who asked hung up before all of it was said."""


@dataclass(frozen=True, kw_only=True)
class GatewayRequest:
    body: bytes
    model: str | None  # None: it names none
    said: dict[str, object] | None  # None: no JSON

    def with_model(self, model: str) -> "GatewayRequest":
        """The same of another model."""
        if self.said is None:
            return replace(self, model=model)
        said = {**self.said, "model": model}
        return GatewayRequest(body=_json(said), model=model, said=said)

    def encode_for(self, model: str, more: dict[str, object]) -> bytes:
        """The body as the engine wants it, which knows only its own name."""
        if self.said is None:
            return self.body
        if self.model not in (None, model):
            more = {**more, "model": model}
        return _json({**self.said, **more}) if more else self.body


def _json(said: dict[str, object]) -> bytes:
    try:
        return json.dumps(said, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a character, which JSON can say and UTF-8 cannot
        return json.dumps(said).encode()


async def receive_request(receive: Receive, content_type: str) -> GatewayRequest:
    """Raises Refusal, GoneError."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise GoneError
        body += message.get("body", b"")
        if len(body) > MOST:
            raise Refusal(
                413, "too_large", f"The request is larger than {MOST >> 20} MiB. Send less at once."
            )
        if not message.get("more_body"):
            return _read(bytes(body), content_type)


def _read(body: bytes, content_type: str) -> GatewayRequest:
    if content_type.startswith("multipart/form-data"):
        found = _FIELD.search(body[: 1 << 16]) or _FIELD.search(body[-(1 << 16) :])
        name = found[1].decode(errors="replace") if found else None
        return GatewayRequest(body=body, model=name, said=None)
    if not body:
        return GatewayRequest(body=body, model=None, said=None)
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "not_json", f"The body of the request is no JSON: {error}.") from error
    if not isinstance(said, dict):
        raise Refusal(400, "not_json", "The body of the request is no JSON object.")
    model = said.get("model")
    if model is not None and not isinstance(model, str):
        raise Refusal(400, "model_missing", "“model” must be a text: the name of a server.")
    return GatewayRequest(body=body, model=model or None, said=said)
