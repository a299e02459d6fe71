"""The socket of every page: sends each card and panel anew when it has changed."""

import asyncio
import contextlib
import time
from urllib.parse import parse_qsl

from asgiref.sync import sync_to_async

from servers import events
from servers.consumers.guard import RECHECK, GuardedConsumer
from servers.consumers.sent import SentParts
from servers.contexts import pages
from servers.models import Permission

# At most this many renderings a second: a burst of changes becomes one message.
PAUSE = 0.05
# A box that falls silent sends no message about it: so often, boxes are looked at anyway.
LOOK_ANYWAY = 10.0

type Key = tuple[str, int | None]


class LiveConsumer(GuardedConsumer):
    """Sends everything on connect, then what looks different, at the pace of its own socket."""

    # What it renders depends on what its person may see.
    permission = Permission.ACCOUNT

    async def connect(self) -> None:
        self.viewer = await self.admit()
        if self.viewer is None:
            return
        asked = dict(parse_qsl(self.scope["query_string"].decode("latin1")))
        self.page = asked.get("page", "dashboard")
        self.pk = int(asked["id"][:9]) if asked.get("id", "").isdecimal() else None
        self.host = dict(self.scope["headers"]).get(b"host", b"").decode("latin1")
        self.dirty: set[Key] = {("everything", None)}
        self.sent = SentParts()
        self.something = asyncio.Event()
        self.something.set()
        await self.channel_layer.group_add(events.LIVE, self.channel_name)
        self.start(self._send_changes())

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        await self.leave_group(events.LIVE)

    async def send_change(self, message: events.ChangeEvent) -> None:
        self.dirty.add((message["kind"], message["id"]))
        self.something.set()

    async def person_changed(self, message: events.PersonChangedEvent) -> None:
        self.viewer = await self.person()
        self.dirty.add(("everything", None))
        self.something.set()

    async def _send_changes(self) -> None:
        checked_at = looked_at = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.something.wait(), LOOK_ANYWAY)
            self.something.clear()
            if time.monotonic() - looked_at >= LOOK_ANYWAY:
                looked_at = time.monotonic()
                self.dirty.add(("boxes", None))
            keys, self.dirty = self.dirty, set()
            if time.monotonic() - checked_at > RECHECK:
                self.viewer = await self.person()
                checked_at = time.monotonic()
                # A message may be lost, and with it a state: what a page shows is never older.
                keys = {("everything", None)}
            if self.viewer is None:
                return
            html = await sync_to_async(pages.render)(
                keys, self.viewer, page=self.page, pk=self.pk, host=self.host
            )
            # What a browser has lost or changed by itself is put right then.
            if ("everything", None) in keys:
                self.sent.forget()
            if new := self.sent.keep_new(html):
                await self.send(text_data=new)
            await asyncio.sleep(PAUSE)
