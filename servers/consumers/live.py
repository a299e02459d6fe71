"""The socket of every page: sends each card and panel anew when it has changed."""

import asyncio
import contextlib
import time
from typing import cast
from urllib.parse import parse_qsl

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth.models import AnonymousUser

from servers import live
from servers.models import Role, User

# The browser reconnects after an abnormal close (1006), which is also how a refused
# handshake looks to it. Accepting first lets this code tell it to stay away.
UNAUTHENTICATED = 4401

# At most this many renderings a second: a burst of changes becomes one message.
PAUSE = 0.05
# How long a person who was disabled meanwhile may still look on.
RECHECK = 30.0

type Key = tuple[str, int | None]


class LiveConsumer(AsyncWebsocketConsumer):
    """Sends everything on connect, then what changed, at the pace of its own socket."""

    async def connect(self) -> None:
        await self.accept()
        self.sender: asyncio.Task[None] | None = None
        user = cast(User | AnonymousUser, self.scope["user"])
        if not isinstance(user, User) or not user.may(Role.VIEWER):
            await self.close(UNAUTHENTICATED)
            return
        self.user_id: int = user.pk
        asked = dict(parse_qsl(self.scope["query_string"].decode("latin1")))
        self.page = asked.get("page", "dashboard")
        self.pk = int(asked["id"][:9]) if asked.get("id", "").isdecimal() else None
        self.dirty: set[Key] = {("everything", None)}
        self.something = asyncio.Event()
        self.something.set()
        await self.channel_layer.group_add(live.LIVE, self.channel_name)
        self.sender = asyncio.create_task(self._send_changes())

    async def disconnect(self, code: int) -> None:
        await self.channel_layer.group_discard(live.LIVE, self.channel_name)
        if self.sender is not None:
            self.sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.sender

    async def changed(self, message: live.Changed) -> None:
        self.dirty.add((message["kind"], message["id"]))
        self.something.set()

    async def _send_changes(self) -> None:
        checked_at = 0.0
        person: User | None = None
        while True:
            await self.something.wait()
            self.something.clear()
            keys, self.dirty = self.dirty, set()
            if time.monotonic() - checked_at > RECHECK:
                person = await User.objects.filter(pk=self.user_id, is_active=True).afirst()
                checked_at = time.monotonic()
            if person is None:
                await self.close(UNAUTHENTICATED)
                return
            html = await sync_to_async(live.render)(keys, person, page=self.page, pk=self.pk)
            if html:
                await self.send(text_data=html)
            await asyncio.sleep(PAUSE)
