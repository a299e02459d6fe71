"""One process's reading of one growing log, shared by everybody who watches it there."""

import asyncio
import contextlib
import json
import logging
from collections import OrderedDict
from typing import Any, NamedTuple

import redis
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import DatabaseError

from servers import events
from servers.consumers import log_search
from servers.models import LogChunk, Run
from servers.models.logs import MOST_CHUNKS, StoredLine

log = logging.getLogger(__name__)

# Nudges may be lost, and a group's membership ends after a day.
LOOK_ANYWAY = 5.0
JOIN_AGAIN = 3600.0
WITHOUT_REDIS = 0.5
# Read in one go; also the most that one message to a browser holds.
MOST_LINES = 1000
# Kept, encoded, for those who are a little behind.
KEPT_BATCHES = 100
KEPT_LENGTH = 16 * 1024 * 1024  # characters


class Batch(NamedTuple):
    text: str  # JSON: [first, [[timestamp, stream, text], ...]]
    last: int


def encode(lines: list[StoredLine]) -> Batch:
    rows = [(line.at, line.stream, line.text) for line in lines]
    text = json.dumps([lines[0].number, rows], ensure_ascii=False, separators=(",", ":"))
    return Batch(text=text, last=lines[-1].number)


class Feed:
    def __init__(self, run_id: int) -> None:
        self.run_id = run_id
        self.upto = 0
        self.is_complete = False
        self.gap: list[int] | None = None  # the first and the last line that were cut out
        self.empty = ""  # what is to be said while there is no line
        self.outline = log_search.LogOutlineReader(run_id)
        self._batches: OrderedDict[int, Batch] = OrderedDict()
        self._length = 0
        self._news = asyncio.Event()
        self._starting = asyncio.Lock()
        self._listeners = 0
        self._task: asyncio.Task[None] | None = None
        self._is_troubled = False

    def find_batch(self, number: int) -> Batch | None:
        """The batch that begins just after that line, if it is still kept."""
        return self._batches.get(number + 1)

    async def news(self, within: float) -> None:
        """Wait until the log has grown or is complete, or for so many seconds."""
        news = self._news
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), within)

    async def join(self) -> None:
        self._listeners += 1
        async with self._starting:
            if self._task is None:
                run = await Run.objects.select_related("log", "start").aget(pk=self.run_id)
                self.upto, self.is_complete = run.log.lines, run.has_whole_log
                self.gap, self.empty = _ends(run.log.gap), run.without_lines
                self._task = asyncio.create_task(self._listen())

    async def leave(self) -> None:
        self._listeners -= 1
        if self._listeners == 0 and self._task is not None:
            _feeds.pop((asyncio.get_running_loop(), self.run_id), None)
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _listen(self) -> None:
        layer = get_channel_layer()
        if layer is None:
            raise RuntimeError("CHANNEL_LAYERS is not configured.")
        loop = asyncio.get_running_loop()
        channel, joined_at = "", 0.0
        while not self.is_complete:
            try:
                if not channel or loop.time() - joined_at > JOIN_AGAIN:
                    channel = channel or await layer.new_channel()
                    await layer.group_add(events.log_group(self.run_id), channel)
                    joined_at = loop.time()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(layer.receive(channel), LOOK_ANYWAY)
            except (redis.RedisError, OSError) as error:
                self._tell_once("Redis", error)
                channel = ""
                await asyncio.sleep(WITHOUT_REDIS)
            try:
                await self._read_on()
            except DatabaseError as error:
                self._tell_once("The database", error)
            else:
                self._is_troubled = False
        if channel:
            with contextlib.suppress(redis.RedisError, OSError):
                await layer.group_discard(events.log_group(self.run_id), channel)

    def _tell_once(self, what: str, error: Exception) -> None:
        if not self._is_troubled:
            self._is_troubled = True
            log.warning("%s is away, the log of run %s comes late: %s", what, self.run_id, error)

    async def _read_on(self) -> None:
        while True:
            news = await database_sync_to_async(_read)(self.run_id, self.upto)
            upto, is_complete, gap, self.empty, lines = news
            is_cut = gap != self.gap
            # Somebody restored the database: these lines are others.
            is_shorter = upto < self.upto
            if is_cut or is_shorter:
                self.gap = gap
                self._batches.clear()
                self._length = 0
            if is_shorter:
                self.upto = upto
                self.outline = log_search.LogOutlineReader(self.run_id)
            if lines:
                self._keep(lines[0].number, encode(lines))
            # Lines that are announced and not there were deleted a moment ago.
            is_all = not lines or self.upto >= upto
            if is_all:
                self.is_complete = is_complete
            if lines or is_cut or is_shorter or self.is_complete:
                self._news.set()
                self._news = asyncio.Event()
            if is_all:
                return

    def _keep(self, first: int, batch: Batch) -> None:
        self._batches[first] = batch
        self.upto = batch.last
        self._length += len(batch.text)
        while len(self._batches) > KEPT_BATCHES or self._length > KEPT_LENGTH:
            _first, dropped = self._batches.popitem(last=False)
            self._length -= len(dropped.text)


def _read(run_id: int, after: int) -> tuple[int, bool, list[int] | None, str, list[StoredLine]]:
    run = Run.objects.filter(pk=run_id).select_related("log", "start").first()
    if run is None:
        return after, True, None, "", []  # deleted
    lines = []
    if run.log.lines > after:
        lines = LogChunk.objects.lines(run_id, after, MOST_LINES, most=MOST_CHUNKS)
    return run.log.lines, run.has_whole_log, _ends(run.log.gap), run.without_lines, lines


def _ends(gap: dict[str, Any] | None) -> list[int] | None:
    return [gap["first"], gap["last"]] if gap else None


_feeds: dict[tuple[asyncio.AbstractEventLoop, int], Feed] = {}


def find_feed(run_id: int) -> Feed:
    """This process's feed of a run; who takes it joins it, and leaves it at the end."""
    return _feeds.setdefault((asyncio.get_running_loop(), run_id), Feed(run_id))
