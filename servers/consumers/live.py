"""The sockets of pages: each card and panel anew when it has changed, and a browser’s notifications."""

import asyncio
import contextlib
import json
import time
from dataclasses import asdict
from urllib.parse import parse_qsl

from asgiref.sync import sync_to_async

from servers import events
from servers.consumers.guard import RECHECK, GuardedConsumer, SentParts
from servers.contexts import alerts, pages
from servers.models import Permission

# At most this many renderings a second: a burst of changes becomes one message.
PAUSE = 0.05
# A box that falls silent sends no message about it: so often, boxes are looked at anyway.
LOOK_ANYWAY = 10.0

type Key = tuple[str, int | None]


class ChangesConsumer(GuardedConsumer):
    """Hears what changes; `something` is set when there may be something to send."""

    def listen(self) -> None:
        self.something = asyncio.Event()
        self.something.set()

    async def connect(self) -> None:
        self.viewer = await self.admit()
        if self.viewer is not None:
            self.listen()
            await self.channel_layer.group_add(events.LIVE, self.channel_name)
            self.start(self.send_changes())

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        await self.leave_group(events.LIVE)

    async def send_changes(self) -> None:
        raise NotImplementedError


class LiveConsumer(ChangesConsumer):
    """Sends everything on connect, then what looks different, at the pace of its own socket."""

    # What it renders depends on what its person may see.
    permission = Permission.ACCOUNT

    def listen(self) -> None:
        super().listen()
        asked = dict(parse_qsl(self.scope["query_string"].decode("latin1")))
        self.page = asked.get("page", "dashboard")
        self.pk = int(asked["id"][:9]) if asked.get("id", "").isdecimal() else None
        self.host = dict(self.scope["headers"]).get(b"host", b"").decode("latin1")
        self.dirty: set[Key] = {("everything", None)}
        self.sent = SentParts()

    async def send_change(self, message: events.ChangeEvent) -> None:
        self.dirty.add((message["kind"], message["id"]))
        self.something.set()

    async def person_changed(self, message: events.PersonChangedEvent) -> None:
        self.viewer = await self.person()
        self.dirty.add(("everything", None))
        self.something.set()

    async def send_changes(self) -> None:
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


# Busy servers change several times a second, and nobody reads notifications that fast.
NOTICES_PAUSE = 1.0
NOTICES_ABOUT = frozenset({"alerts", "server", "servers"})


class NoticesConsumer(ChangesConsumer):
    """Sends what is news for its person whenever that has changed: {"notices": [{id, title, text, url}]}."""

    async def send_change(self, message: events.ChangeEvent) -> None:
        if message["kind"] in NOTICES_ABOUT:
            self.something.set()

    async def send_changes(self) -> None:
        sent: list[alerts.BrowserNotice] | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.something.wait(), RECHECK)
            if not self.something.is_set():
                self.viewer = await self.person()
            self.something.clear()
            if self.viewer is None:
                return
            found = await sync_to_async(alerts.list_notices)(self.viewer)
            if found != sent:
                sent = found
                told = {"notices": [asdict(each) for each in found]}
                await self.send(text_data=json.dumps(told))
            await asyncio.sleep(NOTICES_PAUSE)
