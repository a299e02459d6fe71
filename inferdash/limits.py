"""A bound on what anybody may send: Django writes a whole body to disk before it looks at it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

type Message = dict[str, Any]
type Receive = Callable[[], Awaitable[Mapping[str, Any]]]
type Send = Callable[[Mapping[str, Any]], Awaitable[None]]
type Application = Callable[[Message, Receive, Send], Awaitable[None]]

# Above DATA_UPLOAD_MAX_MEMORY_SIZE, whose sentence is the better one. inferdash takes no files.
MOST = 8 * 1024 * 1024
SENTENCE = b"This is more than inferdash takes in one request: 8 MiB."


class LimitedBodies:
    """Answers 413 to a body that is too large, and reads no more of it."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if _read_length(scope) > MOST:
            await _refuse(send)
            return
        size = 0
        is_over = False

        async def bounded_receive() -> Mapping[str, Any]:
            nonlocal size, is_over
            if is_over:
                return {"type": "http.disconnect"}
            message = await receive()
            size += len(message.get("body", b""))
            if size > MOST:
                is_over = True
                await _refuse(send)
                return {"type": "http.disconnect"}
            return message

        async def send_unless_over(message: Mapping[str, Any]) -> None:
            if not is_over:
                await send(message)

        await self.application(scope, bounded_receive, send_unless_over)


def _read_length(scope: Message) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


async def _refuse(send: Send) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(SENTENCE)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": SENTENCE})
