"""The socket of a run's log: sends lines from where this browser is, at its own pace.

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
from collections.abc import Coroutine
from typing import Any, cast

from channels.db import database_sync_to_async
from django.db import DatabaseError

from servers.consumers import log_feed, log_search
from servers.consumers.guard import RECHECK, BrowserGoneError, GuardedConsumer
from servers.models import LogChunk, Run
from servers.models.logs.log import MOST_CHUNKS

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
        self.feed: log_feed.Feed | None = None
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
        self.feed = log_feed.find_feed(self.run_id)
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
        feed = cast(log_feed.Feed, self.feed)
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

    async def _read(self, position: int, upto: int) -> log_feed.Batch | None:
        limit = min(log_feed.MOST_LINES, upto - position)
        read = database_sync_to_async(LogChunk.objects.lines)
        lines = await read(self.run_id, position, limit, most=MOST_CHUNKS)
        return log_feed.encode(lines) if lines else None

    async def _send_window(self, wish: dict[str, Any]) -> None:
        limit = min(_number(wish, "limit"), log_feed.MOST_LINES)
        if "from" in wish:
            after = max(_number(wish, "from") - 1, 0)
            read = database_sync_to_async(LogChunk.objects.lines)
            lines = await read(self.run_id, after, limit, most=MOST_CHUNKS)
        else:
            before = max(_number(wish, "before"), 1)
            after = max(before - 1 - limit, 0)
            read_back = database_sync_to_async(LogChunk.objects.lines_before)
            lines = await read_back(self.run_id, before, limit, most=MOST_CHUNKS)
        text = log_feed.encode(lines).text if lines else f"[{after + 1},[]]"
        await self.send(text_data=f'{{"window":{text}}}')

    def _outline(self) -> None:
        """Apart from everything else: a long log takes seconds."""
        if self.outlining is None or self.outlining.done():
            self.outlining = asyncio.create_task(self._aside(self._send_outline()))

    async def _send_outline(self) -> None:
        feed = cast(log_feed.Feed, self.feed)
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
        upto = cast(log_feed.Feed, self.feed).upto
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
