"""Access to sockets, checked when one opens and when the person has changed; and what each has been sent."""

import asyncio
import contextlib
import logging
import re
from collections.abc import Coroutine
from importlib import import_module
from typing import Any, cast

import redis
from channels.auth import get_user
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from servers import events
from servers.models import Permission, User

log = logging.getLogger(__name__)

# The browser reconnects after an abnormal close (1006), which is also how a refused
# handshake looks to it. Accepting first lets these codes tell it to stay away.
UNAUTHENTICATED, FORBIDDEN = 4401, 4403
# The browser connects again after a while.
FAULT = 1011

# The message that a person has changed may be lost: so often is asked without one.
RECHECK = 30.0


class BrowserGoneError(Exception):
    """The browser went while it was being sent to."""


class GuardedConsumer(AsyncWebsocketConsumer):
    """A socket that sends by itself for as long as its person may listen.

    `connect` calls `admit`, then `start` with what sends; that calls `person` every RECHECK
    seconds, and returns when the answer is None. `disconnect` is called whatever ended it.
    """

    permission = Permission.VIEW
    sender: asyncio.Task[None] | None = None
    group: str | None = None
    opened_as: int | None = None  # its person's role; a change ends it
    is_closed = False
    is_over = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def tell(message: Any) -> None:
            try:
                await send(message)
            except OSError as error:  # by which ASGI servers say that nobody is there
                raise BrowserGoneError from error

        try:
            await super().__call__(scope, receive, tell)
        except BrowserGoneError:
            pass
        finally:
            # Channels does so only where the browser's going is the first that is heard of it.
            if not self.is_over:
                await self.disconnect(FAULT)

    async def admit(self) -> User | None:
        """Accept the socket. None when it was closed at once."""
        await self.accept()
        person = await self.person()
        if person is not None:
            self.group = events.person_group(person.pk)
            await self.channel_layer.group_add(self.group, self.channel_name)
        return person

    def start(self, sending: Coroutine[Any, Any, None]) -> None:
        self.sender = asyncio.create_task(self._run(sending))

    async def person(self) -> User | None:
        """Whose socket it is, by what session and person are now; None when it was closed."""
        found = await self._by_session()
        if found is None:
            code = UNAUTHENTICATED
        elif not found.may(self.permission):
            code = FORBIDDEN
        elif self.opened_as not in (None, found.role):
            code = FAULT  # opened anew it is another role's
        else:
            self.opened_as = found.role
            return found
        await self._silence()
        await self.close(code)
        return None

    async def person_changed(self, message: events.PersonChangedEvent) -> None:
        await self.person()

    async def close(self, code: Any = None, reason: str | None = None) -> None:
        if not self.is_closed:
            self.is_closed = True
            with contextlib.suppress(BrowserGoneError):
                await super().close(code, reason)

    async def disconnect(self, code: int) -> None:
        self.is_closed = self.is_over = True
        await self._silence()
        if self.group is not None:
            await self.leave_group(self.group)

    async def leave_group(self, group: str) -> None:
        """Where Redis is away, the membership ends by itself."""
        with contextlib.suppress(redis.RedisError, OSError):
            await self.channel_layer.group_discard(group, self.channel_name)

    async def _run(self, sending: Coroutine[Any, Any, None]) -> None:
        try:
            await sending
        except BrowserGoneError:
            return
        except Exception:
            # A page that hears nothing more, and is not told so, shows old figures as new.
            log.exception("A socket's sender failed")
            await self.close(FAULT)

    async def _silence(self) -> None:
        """Nothing may be sent after a close."""
        if self.sender is not None and self.sender is not asyncio.current_task():
            self.sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.sender

    async def _by_session(self) -> User | None:
        """Read anew: a logout, a new password and a disabled account all end the session."""
        key = self.scope["session"].session_key
        session = import_module(settings.SESSION_ENGINE).SessionStore(key)
        found = await get_user(cast(Any, {"session": session}))
        return found if isinstance(found, User) else None


PARTS = re.compile(r'(?=<hx-partial hx-target="#)')
TARGET = re.compile(r'<hx-partial hx-target="#([^"]+)"')
IDS = re.compile(r' id="([^"]+)"')


class SentParts:
    """By target: what was sent last, and the ids in it.

    A part that lies in another, or around one, is as old as the younger of them: both are forgotten when the other comes.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, frozenset[str]]] = {}

    def forget(self) -> None:
        self._last.clear()

    def keep_new(self, html: str) -> str:
        """Of these parts those that differ from what their targets were sent last."""
        return "".join(part for part in PARTS.split(html) if self._is_new(part))

    def _is_new(self, part: str) -> bool:
        named = TARGET.search(part)
        if not named:
            return bool(part.strip())
        target, said = named[1], hash(part)
        if target in self._last and self._last[target][0] == said:
            return False
        ids = frozenset(IDS.findall(part))
        around = [each for each, (_, inner) in self._last.items() if target in inner or each in ids]
        for each in around:
            del self._last[each]
        self._last[target] = said, ids
        return True
