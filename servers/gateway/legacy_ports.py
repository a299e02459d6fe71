"""The ports that programs knew before inferdash was here: opened as long as somebody wants them."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from socket import socket
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db.utils import InterfaceError, OperationalError
from redis import RedisError

from servers import events
from servers.events import wait_async
from servers.gateway.app import Gateway
from servers.gateway.callers import LegacyPortListener, Receive, Scope, Send
from servers.lifecycle.profiles import knowledge
from servers.models import Box, LegacyPort

log = logging.getLogger(__name__)

# Seconds after which it is looked whether a port that was taken is free by now.
LOOKED_AT = 20.0


class PortTakenError(Exception):
    """The port cannot be opened; the text says why."""


class PortStatus:
    """What answers on one of them: engines' paths alone, never a page."""

    def __init__(self, gateway: Gateway, door: LegacyPortListener) -> None:
        self.gateway = gateway
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self.gateway.answer(scope, receive, send, self.door)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})


# Opens a port. Raises PortTakenError.
type Bind = Callable[[int], list[socket]]
# Serves an application there until it is cancelled, and closes it.
type Serve = Callable[[PortStatus, list[socket]], Coroutine[Any, Any, None]]


class LegacyPorts:
    def __init__(self, gateway: Gateway, bind: Bind, serve: Serve) -> None:
        self._gateway = gateway
        self._bind = bind
        self._serve = serve
        self._open: dict[LegacyPortListener, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """For as long as the web process lives."""
        try:
            while True:
                try:
                    await wait_async(
                        self._look,
                        lambda _nothing: False,
                        groups=[events.LIVE],
                        seconds=LOOKED_AT,
                        is_about=lambda message: message.get("kind") == "ports",
                    )
                except (OperationalError, InterfaceError, RedisError, OSError) as error:
                    log.warning("The database or Redis is away: %s", error)
                    await asyncio.sleep(LOOKED_AT)
        finally:
            for each in self._open.values():
                each.cancel()
            await asyncio.gather(*self._open.values(), return_exceptions=True)

    async def _look(self) -> None:
        wanted = {each.port: each for each in await sync_to_async(_doors)()}
        for door, serving in list(self._open.items()):
            if wanted.get(door.port) != door:
                serving.cancel()
                # Only then can its port be opened for another one.
                await asyncio.gather(serving, return_exceptions=True)
                del self._open[door]
            elif serving.done():
                del self._open[door]
        for door in wanted.values():
            if door not in self._open:
                self._open[door] = asyncio.create_task(self._serve_on(door))

    async def _serve_on(self, door: LegacyPortListener) -> None:
        try:
            bound = self._bind(door.port)
        except PortTakenError as error:
            holder = await sync_to_async(_holder)(door.port)
            await _note(door, f"Port {door.port} is taken by {holder}" if holder else str(error))
            return
        try:
            await _note(door, "")
            await self._serve(PortStatus(self._gateway, door), bound)
        finally:
            for each in bound:
                each.close()


def _holder(port: int) -> str:
    """The engine that has it, "" where it is none: then the kernel says who has it."""
    box = Box.objects.filter(slug=settings.BOX).first()
    return knowledge.of_all(box).get(port, "") if box else ""


def _doors() -> list[LegacyPortListener]:
    ports = LegacyPort.objects.filter(box__slug=settings.BOX).select_related("made_by")
    return [LegacyPortListener.from_row(each) for each in ports]


async def _note(door: LegacyPortListener, problem: str) -> None:
    ports = LegacyPort.objects.filter(pk=door.pk).exclude(problem=problem[:300])
    if await ports.aupdate(problem=problem[:300]):
        if problem:
            log.warning("port %s is not open: %s", door.port, problem)
        else:
            log.info("port %s is open", door.port)
        await sync_to_async(partial(events.publish_change, "requests"))()
