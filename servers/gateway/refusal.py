"""Refusals of the gateway, in the shape that the client's API expects."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from servers.gateway.asgi import Send

ANTHROPIC = "/v1/messages"
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}


@dataclass
class Refusal(Exception):
    """`message` says what, of which server, and what to do; it is what is kept."""

    status: int
    code: str
    message: str
    retry_after: int | None = None  # seconds
    server: str = field(default="", kw_only=True)
    # What the caller is told in its place, who may not read logs and figures; "": the message.
    brief: str = field(default="", kw_only=True)

    def body(self, path: str) -> bytes:
        """In the shape of the API that was asked for."""
        kind = TYPES.get(self.status, "api_error")
        says = self.brief or self.message
        if path.startswith(ANTHROPIC):
            return json.dumps({"type": "error", "error": {"type": kind, "message": says}}).encode()
        error = {"message": says, "type": kind, "param": None, "code": self.code}
        return json.dumps({"error": error}).encode()

    def event(self, path: str) -> bytes:
        """For a stream that has begun. The blank line ends whatever it was cut off in."""
        name = b"event: error\n" if path.startswith(ANTHROPIC) else b""
        return b"\n\n" + name + b"data: " + self.body(path) + b"\n\n"

    async def answer(self, send: Send, path: str, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
        body = self.body(path)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            # Anthropic's shape has no place for it; and engines' own refusals do not have it.
            (b"x-inferdash-error", self.code.encode()),
            *more,
        ]
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.retry_after is not None:
            headers.append((b"retry-after", str(self.retry_after).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
