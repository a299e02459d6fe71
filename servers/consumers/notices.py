"""The socket of a browser's notifications: one tab of it listens, in the background too."""

import asyncio
import contextlib
import json
from dataclasses import asdict

from asgiref.sync import sync_to_async

from servers import events
from servers.consumers.guard import RECHECK, GuardedConsumer
from servers.contexts.alerts import notices

# Busy servers change several times a second, and nobody reads notifications that fast.
PAUSE = 1.0
ABOUT = frozenset({"alerts", "server", "servers"})


class NoticesConsumer(GuardedConsumer):
    """Sends what is news for its person whenever that has changed: {"notices": [{id, title, text, url}]}."""

    async def connect(self) -> None:
        self.viewer = await self.admit()
        if self.viewer is None:
            return
        self.something = asyncio.Event()
        self.something.set()
        await self.channel_layer.group_add(events.LIVE, self.channel_name)
        self.start(self._send_notices())

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        await self.leave_group(events.LIVE)

    async def send_change(self, message: events.ChangeEvent) -> None:
        if message["kind"] in ABOUT:
            self.something.set()

    async def _send_notices(self) -> None:
        sent: list[notices.BrowserNotice] | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.something.wait(), RECHECK)
            if not self.something.is_set():
                self.viewer = await self.person()
            self.something.clear()
            if self.viewer is None:
                return
            found = await sync_to_async(notices.list_notices)(self.viewer)
            if found != sent:
                sent = found
                told = {"notices": [asdict(each) for each in found]}
                await self.send(text_data=json.dumps(told))
            await asyncio.sleep(PAUSE)
