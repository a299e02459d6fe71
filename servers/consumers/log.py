"""The socket of a run's log: sends lines from where this browser is, at its own pace.

browser: {"tail": n} or {"after": n}                 push lines from there on
         {"from": n, "limit": m}                     lines n..n+m-1, once
         {"before": n, "limit": m}                   the m lines before n, once
         {"find": text, "id": k}                     line numbers, over the whole log
server:  [first, [[timestamp, stream, text], ...]]   pushed lines
         {"lines": n, "complete": bool}              on connect, and at the log's end
         {"window": [first, [...]]}
         {"found": {"id": k, "numbers": [...], "total": n, "upto": n}}
"""

import asyncio
import contextlib
import json
import logging
import time
from typing import Any, cast

from channels.db import database_sync_to_async
from django.db import DatabaseError

from servers.consumers import log_feed
from servers.consumers.guard import RECHECK, GuardedConsumer
from servers.models import LogChunk, Run
from servers.models.log import MOST_CHUNKS

log = logging.getLogger(__name__)

# The browser does not come back after these.
NOT_FOUND, NONSENSE = 4404, 4400
# The browser connects again, from the line that it has.
TRY_AGAIN = 1013

MOST_FOUND = 10_000
LONGEST_SEARCH = 500


class LogConsumer(GuardedConsumer):
    async def connect(self) -> None:
        self.run_id: int = self.scope["url_route"]["kwargs"]["run_id"]
        self.feed: log_feed.Feed | None = None
        self.position: int | None = None
        self.moved = asyncio.Event()
        if await self.admit() is None:
            return
        if not await Run.objects.filter(pk=self.run_id).aexists():
            await self.close(NOT_FOUND)
            return
        self.feed = log_feed.of(self.run_id)
        await self.feed.join()
        hello = {"lines": self.feed.upto, "complete": self.feed.is_complete}
        await self._tell({"hello": hello})
        self.start(self._send_until_closed())

    async def disconnect(self, code: int) -> None:
        await super().disconnect(code)
        if self.feed is not None:
            await self.feed.leave()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.feed is None:
            return
        try:
            wish = json.loads(text_data or "")
            if "tail" in wish:
                self._go_to(max(self.feed.upto - _number(wish, "tail"), 0))
            elif "after" in wish:
                self._go_to(_number(wish, "after"))
            elif "from" in wish or "before" in wish:
                await self._send_window(wish)
            elif "find" in wish:
                await self._send_found(str(wish["find"])[:LONGEST_SEARCH], _number(wish, "id"))
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
        has_told_end = feed.is_complete
        while True:
            if time.monotonic() - checked_at > RECHECK:
                if await self.person() is None:
                    return
                checked_at = time.monotonic()
            position = self.position
            if position is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.moved.wait(), RECHECK)
                continue
            batch = feed.after(position)
            if batch is None and position < feed.upto:
                batch = await self._read(position, feed.upto)
            if batch is not None:
                # A browser that goes elsewhere meanwhile has changed the position itself.
                if self.position == position:
                    self.position = batch.last
                await self.send(text_data=batch.text)
            elif feed.is_complete and not has_told_end:
                has_told_end = True
                await self._tell({"complete": feed.upto})
            else:
                await feed.news(within=RECHECK)

    async def _read(self, position: int, upto: int) -> log_feed.Batch | None:
        limit = min(log_feed.MOST_LINES, upto - position)
        read = database_sync_to_async(LogChunk.objects.lines)
        lines = await read(self.run_id, position, limit, most=MOST_CHUNKS)
        return log_feed.encoded(lines) if lines else None

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
        text = log_feed.encoded(lines).text if lines else f"[{after + 1},[]]"
        await self.send(text_data=f'{{"window":{text}}}')

    async def _send_found(self, text: str, search_id: int) -> None:
        feed = cast(log_feed.Feed, self.feed)
        upto = feed.upto
        # Apart from the thread that all short queries share: a long log takes a second.
        find = database_sync_to_async(LogChunk.objects.find, thread_sensitive=False)
        numbers, total = await find(self.run_id, text, MOST_FOUND) if text else ([], 0)
        await self._tell(
            {"found": {"id": search_id, "numbers": numbers, "total": total, "upto": upto}}
        )

    async def _tell(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message))


def _number(wish: dict[str, Any], name: str) -> int:
    number = wish[name]
    if not isinstance(number, int) or number < 0:
        raise ValueError(name)
    return number
