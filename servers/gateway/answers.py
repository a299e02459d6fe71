"""Answers in the playground: they go on in the server when their page is gone.

Each is read from its engine by a task of its own, which hands it to the page and keeps it in a
Redis stream, from which any page of the same person takes it up again.
"""

import asyncio
import contextvars
import logging
import time
import zlib
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

import redis.asyncio
from django.conf import settings
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from servers.gateway.calls import error, event

KEPT = 24 * 3600  # seconds for which an answer is kept
LONGEST = 3 * 3600.0  # seconds until an answer is stopped
LARGEST = 4 * 2**20  # compressed bytes of an answer: some ten times as much text
UNREAD = 2**20  # bytes that a page may be behind before it has to take the answer up again
UNWRITTEN = 2**20  # bytes that Redis may be behind before the engine has to wait
AT_ONCE = 8  # answers of one person that may arrive at the same time
MOST = 16  # answers of one person that are kept
BATCH = 0.1  # seconds in which pieces are gathered for one write
BEAT = 5  # seconds between two signs of life
ALIVE = 20  # seconds after which an answer without one is dead
A_PAGE = 16  # entries that are read at a time
STILL = b": the answer is still arriving\n\n"

LOST = (
    "inferdash was restarted in the middle of the answer, or lost its Redis. What had arrived is "
    "kept. Retry to ask again."
)
TOO_LARGE = (
    f"The answer was stopped: it had grown to more than {LARGEST / 2**20:.0f} MiB, compressed. "
    "What had arrived is kept. Set Max tokens, then ask again."
)
TOO_LONG = (
    f"The answer was stopped after {LONGEST / 3600:.0f} hours. What had arrived is kept. "
    "Set Max tokens, then ask again."
)
FAULT = (
    "The answer broke off by a fault in inferdash, which its log describes. What had arrived is "
    "kept. Retry to ask again."
)

logger = logging.getLogger(__name__)


class TooManyError(Exception):
    """This person has as many answers arriving as one may have."""


@dataclass(frozen=True)
class Name:
    """What an answer is known by: whose it is, and its keys in the browser."""

    person: int
    conversation: str
    key: str

    @property
    def stream(self) -> str:
        return f"answer:{self.person}:{self.conversation}:{self.key}"

    @property
    def alive(self) -> str:
        return _alive(self.stream)

    @property
    def stopping(self) -> str:
        return f"{self.stream}:stop"

    @property
    def index(self) -> str:
        return _index(self.person)


class StreamingAnswer:
    """One answer while its engine writes it."""

    def __init__(self, name: Name, pieces: AsyncGenerator[bytes]) -> None:
        self.name = name
        self.began = time.monotonic()
        self.is_kept = True
        self._pieces = pieces
        self._unwritten: list[bytes] = []
        self._unwritten_size = 0
        self._unread: list[bytes] = []
        self._unread_size = 0
        self._is_over = False
        self._is_stopped = False
        self._is_listened_to = True
        self._more_to_write = asyncio.Event()
        self._more_to_read = asyncio.Event()
        self._is_taken = asyncio.Event()  # what was unwritten
        # A context of its own: the request's ends with the request.
        context = contextvars.Context()
        self._reading = asyncio.create_task(self._read(), context=context)
        self._writing = asyncio.create_task(self._write(), context=context)
        self._reading.add_done_callback(self._end)
        self._writing.add_done_callback(self._leave)

    def stop(self) -> None:
        if not self._is_stopped:  # a second time would cut its cleaning up short
            self._is_stopped = True
            self._reading.cancel()

    async def listen(self) -> AsyncGenerator[bytes]:
        """The pieces for the page that asked; when it goes, the answer goes on without it."""
        try:
            while self._unread or not self._is_over:
                try:
                    async with asyncio.timeout(BEAT):
                        await self._more_to_read.wait()
                except TimeoutError:
                    # Proxies and browsers give up on silence; this server finds out who is gone.
                    yield STILL
                    continue
                self._more_to_read.clear()
                if self._unread_size > UNREAD:
                    return
                batch, self._unread, self._unread_size = b"".join(self._unread), [], 0
                if batch:
                    yield batch
            yield event("end", {})
        finally:
            self._is_listened_to = False
            self._unread = []
            if not self.is_kept:
                self.stop()

    async def finish(self) -> None:
        """Return when all of it has been written."""
        await asyncio.wait({self._reading, self._writing})

    def _take(self, piece: bytes) -> None:
        if self.is_kept:
            self._unwritten.append(piece)
            self._unwritten_size += len(piece)
            self._more_to_write.set()
        if self._is_listened_to and self._unread_size <= UNREAD:
            self._unread.append(piece)
            self._unread_size += len(piece)
            if self._unread_size > UNREAD:  # the page will ask for all of it anew
                self._unread = []
        self._more_to_read.set()

    async def _read(self) -> None:
        try:
            async with asyncio.timeout(LONGEST), aclosing(self._pieces) as pieces:
                async for piece in pieces:
                    self._take(piece)
                    while self._unwritten_size > UNWRITTEN:
                        self._is_taken.clear()
                        await self._is_taken.wait()
        except TimeoutError:
            self._take(error(TOO_LONG))
        except asyncio.CancelledError:
            self._take(self._build_cancelled())
        except Exception:
            logger.exception("An answer in the playground broke off")
            self._take(error(FAULT))

    def _end(self, reading: asyncio.Task[None]) -> None:
        if reading.cancelled():  # before it had begun
            self._take(self._build_cancelled())
        self._is_over = True
        self._more_to_write.set()
        self._more_to_read.set()
        self._leave(reading)

    def _leave(self, _ended: asyncio.Task[None]) -> None:
        # Not before all is written: until then a page that follows has to wait for it.
        if self._reading.done() and self._writing.done():
            _arriving.pop(self.name, None)

    def _build_cancelled(self) -> bytes:
        # Not by a person where the whole process ends.
        return event("stopped", {}) if self._is_stopped else error(LOST)

    async def _write(self) -> None:
        try:
            async with _client() as client:
                await self._enter(client)
                guard = asyncio.create_task(self._guard())
                try:
                    await self._write_batches(client)
                finally:
                    guard.cancel()
                    await asyncio.wait({guard})
        except (RedisError, OSError) as exc:
            logger.warning("An answer in the playground is not kept, since Redis fails: %s", exc)
            self.is_kept = False
            if not self._is_listened_to:
                self.stop()
            self._take_unwritten()

    async def _enter(self, client: redis.asyncio.Redis) -> None:
        name = self.name
        await client.set(name.alive, 1, ex=ALIVE)
        await client.delete(name.stream)  # of one that was asked for under the same name before
        await client.zadd(name.index, {name.stream: time.time()})
        await client.expire(name.index, KEPT + round(LONGEST))
        kept: list[Any] = await client.zrange(name.index, 0, -1)
        over = len(kept) - MOST
        for stream in (each.decode() for each in kept):
            # One that arrives would go on without its beginning.
            if over > 0 and not await client.exists(_alive(stream)):
                await client.zrem(name.index, stream)
                await client.delete(stream)
                over -= 1

    async def _write_batches(self, client: redis.asyncio.Redis) -> None:
        name, size = self.name, 0
        while not self._is_over or self._unwritten:
            await self._more_to_write.wait()
            self._more_to_write.clear()
            if not (batch := self._take_unwritten()):
                continue
            packed = zlib.compress(batch, 1)
            size += len(packed)
            if size > LARGEST and not self._is_over:
                self._take(error(TOO_LARGE))
                self.stop()
            milliseconds = round((time.monotonic() - self.began) * 1000)
            await client.xadd(name.stream, {"at": milliseconds, "data": packed})
            await client.expire(name.stream, KEPT)
            if not self._is_over:
                await asyncio.sleep(BATCH)  # pieces that come meanwhile are one write
        await client.xadd(name.stream, {"end": 1})
        await client.expire(name.stream, KEPT)
        await client.delete(name.alive, name.stopping)
        if await client.zscore(name.index, name.stream) is None:  # another process has erased it
            await client.delete(name.stream)

    def _take_unwritten(self) -> bytes:
        batch, self._unwritten, self._unwritten_size = b"".join(self._unwritten), [], 0
        self._is_taken.set()
        return batch

    async def _guard(self) -> None:
        """Give signs of life, and stop when another process says so."""
        with suppress(RedisError, OSError):  # the writing fails, too, and tells
            async with _client() as client:
                while not await client.blpop([self.name.stopping], timeout=BEAT):
                    await client.set(self.name.alive, 1, ex=ALIVE)
                self.stop()


_arriving: dict[Name, StreamingAnswer] = {}


def begin(name: Name, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Let this answer arrive, and return it for the page that asked. Raises TooManyError."""
    if name in _arriving:
        return follow(name)  # a browser sends again what it believes to be lost
    if Counter(each.person for each in _arriving)[name.person] >= AT_ONCE:
        raise TooManyError
    _arriving[name] = arriving = StreamingAnswer(name, pieces)
    return arriving.listen()


async def is_there(name: Name) -> bool:
    """Raises RedisError."""
    if _is_being_written(name):
        return True
    async with _client() as client:
        return bool(await client.exists(name.stream, name.alive))


async def follow(name: Name) -> AsyncGenerator[bytes]:
    """From the beginning, with the time of each batch in ms; and on, until it ends.

    An event "now" parts what had come before from what comes as it is written.
    """
    try:
        async with _client() as client:
            last, is_past, is_dead = b"0", True, False
            while True:
                wait = None if is_past or is_dead else BEAT * 1000
                found = await _entries(client, name, last, wait)
                for _place, fields in found:
                    if b"end" in fields:
                        yield event("end", {})
                        return
                    yield event("at", {"ms": int(fields[b"at"])}) + zlib.decompress(fields[b"data"])
                if found:
                    last = found[-1][0]
                    continue
                if is_dead:
                    yield error(LOST)
                    return
                if is_past:
                    yield event("now", {})
                    is_past = False
                else:
                    yield STILL
                # Its end may have come between the two: it is looked for once more.
                is_dead = not _is_being_written(name) and not await client.exists(name.alive)
    except (RedisError, OSError) as exc:
        logger.warning("An answer in the playground cannot be followed: %s", exc)
        # Without an event: the page takes it up again.


def _is_being_written(name: Name) -> bool:
    """By this process, which may not have told Redis of it yet."""
    arriving = _arriving.get(name)
    return bool(arriving and arriving.is_kept)


async def _entries(
    client: redis.asyncio.Redis, name: Name, after: bytes, wait: int | None
) -> list[tuple[bytes, dict[bytes, bytes]]]:
    found: Any = await client.xread({name.stream: after}, count=A_PAGE, block=wait)
    return found[0][1] if found else []


async def stop(name: Name) -> None:
    """Raises RedisError."""
    if arriving := _arriving.get(name):
        arriving.stop()
        return
    async with _client() as client:
        # Also where there is none yet: who stops at once may be faster than the question.
        await client.rpush(name.stopping, 1)
        await client.expire(name.stopping, ALIVE)


async def forget(person: int, conversation: str) -> None:
    """Stop and erase all answers of a conversation. Raises RedisError."""
    here = [
        each
        for each in _arriving.values()
        if (each.name.person, each.name.conversation) == (person, conversation)
    ]
    for arriving in here:
        arriving.stop()
    for arriving in here:
        await arriving.finish()
    async with _client() as client:
        prefix = Name(person, conversation, "").stream
        kept: list[Any] = await client.zrange(_index(person), 0, -1)
        for stream in (each.decode() for each in kept):
            if not stream.startswith(prefix):
                continue
            if await client.exists(_alive(stream)):
                await stop(Name(person, conversation, stream.removeprefix(prefix)))
            # In this order: a process that writes it looks into the index last.
            await client.zrem(_index(person), stream)
            await client.delete(stream)


def _alive(stream: str) -> str:
    return f"{stream}:alive"


def _index(person: int) -> str:
    return f"answers:{person}"


def _client() -> redis.asyncio.Redis:
    # A read that blocks is quiet for longer than redis-py's patience. What fails is not tried again:
    # behind a lost connection there may be another Redis, which has the beginning of no answer.
    return redis.asyncio.Redis.from_url(
        settings.REDIS_URL, socket_timeout=30, retry=Retry(NoBackoff(), 0)
    )
