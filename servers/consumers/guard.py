"""Who may listen on a socket, asked when it opens and again whenever the person has changed."""

from importlib import import_module
from typing import Any, cast

from channels.auth import get_user
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from servers import live
from servers.models import Role, User

# The browser reconnects after an abnormal close (1006), which is also how a refused
# handshake looks to it. Accepting first lets these codes tell it to stay away.
UNAUTHENTICATED, FORBIDDEN = 4401, 4403

# A message may be lost: so often is asked without one.
RECHECK = 30.0


class GuardedConsumer(AsyncWebsocketConsumer):
    """Call `admit` in `connect`, `person` at least every RECHECK seconds, `leave` at the end."""

    role = Role.VIEWER
    group: str | None = None

    async def admit(self) -> User | None:
        """Accept the socket. None when it was closed at once, with the reason."""
        await self.accept()
        person = await self.person()
        if person is not None:
            self.group = live.person_group(person.pk)
            await self.channel_layer.group_add(self.group, self.channel_name)
        return person

    async def person(self) -> User | None:
        """Whose socket it is, by what session and person are now; None when it was closed."""
        found = await self._by_session()
        if found is not None and found.may(self.role):
            return found
        await self.shut()
        await self.close(UNAUTHENTICATED if found is None else FORBIDDEN)
        return None

    async def shut(self) -> None:
        """Stop sending: nothing may follow a close. For consumers that send by themselves."""

    async def leave(self) -> None:
        if self.group is not None:
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def person_changed(self, message: live.PersonChanged) -> None:
        await self.person()

    async def _by_session(self) -> User | None:
        """Read anew: a logout, a new password and a disabled account all end the session."""
        key = self.scope["session"].session_key
        session = import_module(settings.SESSION_ENGINE).SessionStore(key)
        found = await get_user(cast(Any, {"session": session}))
        return found if isinstance(found, User) else None
