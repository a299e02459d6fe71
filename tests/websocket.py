"""A browser's end of a WebSocket, in the test's own process, through all of inferdash's ASGI."""

import json
from typing import Any, cast
from urllib.parse import urlsplit

from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.test import AsyncClient

from inferdash.asgi import application
from servers.models import User
from tests.waiting import PATIENCE


class Socket:
    def __init__(
        self,
        address: str,
        *,
        session: str = "",
        host: str = "localhost",
        origin: str | None = "http://localhost",
        scheme: str = "ws",
        **headers: str,
    ) -> None:
        parts = urlsplit(address)
        sent = {"host": host, **{name.replace("_", "-"): text for name, text in headers.items()}}
        if origin is not None:
            sent["origin"] = origin
        if session:
            sent["cookie"] = f"{settings.SESSION_COOKIE_NAME}={session}"
        scope = {
            "type": "websocket",
            "scheme": scheme,
            "path": parts.path,
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), text.encode()) for name, text in sent.items()],
            "subprotocols": [],
        }
        communicator: Any = ApplicationCommunicator
        self._end = communicator(application, scope)

    async def open(self) -> bool:
        """Whether the handshake was accepted."""
        await self._end.send_input({"type": "websocket.connect"})
        said = await self._end.receive_output(PATIENCE)
        return bool(said["type"] == "websocket.accept")

    async def hear(self) -> dict[str, Any]:
        """The next ASGI event from the server: websocket.send or websocket.close."""
        return cast(dict[str, Any], await self._end.receive_output(PATIENCE))

    async def hear_close(self) -> int:
        """The code by which the server closes; what it sends before is dropped."""
        while (said := await self.hear())["type"] != "websocket.close":
            pass
        return int(said["code"])

    async def say(self, message: object) -> None:
        await self.say_text(json.dumps(message))

    async def say_text(self, text: str) -> None:
        await self._end.send_input({"type": "websocket.receive", "text": text})

    async def leave(self) -> None:
        await self._end.send_input({"type": "websocket.disconnect", "code": 1001})
        await self._end.wait(PATIENCE)


async def session_of(person: User) -> str:
    """The key of a session in which this person has logged in."""
    client = AsyncClient()
    await client.aforce_login(person)
    return client.cookies[settings.SESSION_COOKIE_NAME].value
