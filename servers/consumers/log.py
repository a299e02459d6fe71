"""The socket of a run's log, which sends lines at the pace of its browser, and the reading that sockets share.

browser: {"tail": n} or {"after": n}                 push lines from there on
         {"from": n, "limit": m}                     lines n..n+m-1, once
         {"before": n, "limit": m}                   the m lines before n, once
         {"find": {"text", "regex", "case", "level", "worst", "rank"}, "id": k, "near": n, "after": n}
                                                     search lines after+1 on, from `near` on first;
                                                     lines from this level to that one
         {"find": null, "id": k}                     end the search
         {"pick": [n, ...]}                          these lines, once
         {"outline": true}                           what stands beside the lines, once
server:  [first, [[timestamp, stream, text], ...]]   pushed lines
         {"hello": {"lines": n, "complete": bool, "gap": [first, last], "empty": text}}
                                                     on connect; the line that a gap begins with
                                                     stands for all up to its last; `empty` is to
                                                     be said while there is no line
         {"gap": [first, last]}                      more was cut out meanwhile
         {"anew": true}                              it is shorter now: a database was restored
         {"complete": n, "empty": text}              at the log's end
         {"window": [first, [...]]}
         {"picked": [[n, timestamp, stream, text], ...]}
         {"outline": {"errors", "warnings": [n, ...], "ranks": [text, ...],
                      "harmless": [[why, [n, ...]], ...],
                      "figures": {"tokens": of what, "t": seconds, "line": n, "generation", "prompt",
                                  "running", "queued", "kv": [figure or null, ...]} or {},
                      "phases", "evidence": [[n, text], ...]}}
         {"found": {"id": k, "numbers": [...], "total": n, "looked": n, "upto": n, "done": bool,
                    "error": text}}                  several, as hits are found
"""

import asyncio
import contextlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Coroutine
from typing import Any, NamedTuple, cast

import redis
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.db import DatabaseError

from servers import events
from servers.consumers import log_search
from servers.consumers.guard import RECHECK, BrowserGoneError, GuardedConsumer
from servers.models import LogChunk, Run
from servers.models.logs import MOST_CHUNKS, StoredLine

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


log = logging.getLogger(__name__)

# The browser does not come back after these.
NOT_FOUND, NONSENSE = 4404, 4400
# The browser connects again, from the line that it has.
TRY_AGAIN = 1013

MOST_PICKED = 1000
LAST_LINE = 2**31 - 1  # that the database can count


class LogConsumer(GuardedConsumer):
    def __init__(self) -> None:
        super().__init__()
        self.feed: Feed | None = None
        self.position: int | None = None
        self.moved = asyncio.Event()
        self.searching: asyncio.Task[None] | None = None
        self.outlining: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        self.run_id: int = self.scope["url_route"]["kwargs"]["run_id"]
        if await self.admit() is None:
            return
        if not await Run.objects.filter(pk=self.run_id).aexists():
            await self.close(NOT_FOUND)
            return
        self.feed = find_feed(self.run_id)
        await self.feed.join()
        hello = {
            "lines": self.feed.upto,
            "complete": self.feed.is_complete,
            "gap": self.feed.gap,
            "empty": self.feed.empty,
        }
        await self._tell({"hello": hello})
        self.start(self._send_until_closed())

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        await self._end_search()
        if self.outlining is not None:
            self.outlining.cancel()
        if self.feed is not None:
            await self.feed.leave()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.feed is None:
            return
        try:
            wish = json.loads(text_data or "")
            if "find" in wish:
                await self._search(wish)
            elif "tail" in wish:
                self._go_to(max(self.feed.upto - _number(wish, "tail"), 0))
            elif "after" in wish:
                self._go_to(_number(wish, "after"))
            elif "from" in wish or "before" in wish:
                await self._send_window(wish)
            elif "outline" in wish:
                self._outline()
            elif "pick" in wish:
                await self._send_picked(wish["pick"])
        except (ValueError, TypeError, KeyError, RecursionError):
            await self.close(NONSENSE)

    def _go_to(self, position: int) -> None:
        self.position = position
        self.moved.set()

    async def _send_until_closed(self) -> None:
        try:
            await self._send_lines()
        except DatabaseError as error:
            log.warning("The log of run %s cannot be read: %s", self.run_id, error)
            await self.close(TRY_AGAIN)

    async def _send_lines(self) -> None:
        """One message at a time: the next is made when the socket has taken the last."""
        feed = cast(Feed, self.feed)
        checked_at = time.monotonic()
        has_told_end, told_gap = feed.is_complete, feed.gap
        while True:
            if time.monotonic() - checked_at > RECHECK:
                if await self.person() is None:
                    return
                checked_at = time.monotonic()
            if feed.gap != told_gap:
                told_gap = feed.gap
                await self._tell({"gap": told_gap})
            position = self.position
            if position is not None and position > feed.upto and await self._is_shorter(position):
                self.position = position = None
                self.moved.clear()
                await self._tell({"anew": True})
            if position is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.moved.wait(), RECHECK)
                continue
            batch = feed.find_batch(position)
            if batch is None and position < feed.upto:
                batch = await self._read(position, feed.upto)
            if batch is not None:
                # A browser that goes elsewhere meanwhile has changed the position itself.
                if self.position == position:
                    self.position = batch.last
                await self.send(text_data=batch.text)
            elif feed.is_complete and not has_told_end:
                has_told_end = True
                await self._tell({"complete": feed.upto, "empty": feed.empty})
            else:
                await feed.news(within=RECHECK)

    async def _is_shorter(self, position: int) -> bool:
        """Another process's feed may only have been ahead of this one's."""
        shorter = Run.objects.filter(pk=self.run_id, log__lines__lt=position)
        return await shorter.aexists()

    async def _read(self, position: int, upto: int) -> Batch | None:
        limit = min(MOST_LINES, upto - position)
        read = database_sync_to_async(LogChunk.objects.lines)
        lines = await read(self.run_id, position, limit, most=MOST_CHUNKS)
        return encode(lines) if lines else None

    async def _send_window(self, wish: dict[str, Any]) -> None:
        limit = min(_number(wish, "limit"), MOST_LINES)
        if "from" in wish:
            after = max(_number(wish, "from") - 1, 0)
            read = database_sync_to_async(LogChunk.objects.lines)
            lines = await read(self.run_id, after, limit, most=MOST_CHUNKS)
        else:
            before = max(_number(wish, "before"), 1)
            after = max(before - 1 - limit, 0)
            read_back = database_sync_to_async(LogChunk.objects.lines_before)
            lines = await read_back(self.run_id, before, limit, most=MOST_CHUNKS)
        text = encode(lines).text if lines else f"[{after + 1},[]]"
        await self.send(text_data=f'{{"window":{text}}}')

    def _outline(self) -> None:
        """Apart from everything else: a long log takes seconds."""
        if self.outlining is None or self.outlining.done():
            self.outlining = asyncio.create_task(self._aside(self._send_outline()))

    async def _send_outline(self) -> None:
        feed = cast(Feed, self.feed)
        await self._tell({"outline": await feed.outline.read(feed.upto)})

    async def _aside(self, answering: Coroutine[Any, Any, None]) -> None:
        try:
            await answering
        except BrowserGoneError:
            return
        except DatabaseError as error:
            log.warning("The log of run %s cannot be read: %s", self.run_id, error)
            await self.close(TRY_AGAIN)
        except OSError as error:
            log.info("A search of the log of run %s ended: %s", self.run_id, error)
            await self.close(TRY_AGAIN)

    async def _send_picked(self, numbers: list[int]) -> None:
        wanted = [_number({"pick": number}, "pick") for number in numbers[:MOST_PICKED]]
        read = database_sync_to_async(LogChunk.objects.pick_lines, thread_sensitive=False)
        await self._tell({"picked": await read(self.run_id, wanted)})

    async def _search(self, wish: dict[str, Any]) -> None:
        await self._end_search()
        search_id = _number(wish, "id")
        if wish["find"] is not None:
            query = log_search.query(wish["find"])
            near, after = (
                _number({"near": 0, "after": 0, **wish}, key) for key in ("near", "after")
            )
            finding = self._send_found(search_id, query, near, after)
            self.searching = asyncio.create_task(self._aside(finding))

    async def _end_search(self) -> None:
        task, self.searching = self.searching, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _send_found(
        self, search_id: int, query: dict[str, Any], near: int, after: int
    ) -> None:
        upto = cast(Feed, self.feed).upto
        found = log_search.search(self.run_id, query, near=near, after=after, upto=upto)
        async with contextlib.aclosing(found):
            async for said in found:
                await self._tell({"found": {"id": search_id, "upto": upto, **said}})

    async def _tell(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message))


def _number(wish: dict[str, Any], name: str) -> int:
    number = wish[name]
    if not isinstance(number, int) or not 0 <= number <= LAST_LINE:
        raise ValueError(name)
    return number
