"""HTTP as uvicorn speaks it, with a bound on what comes before a body, and on silence.

httptools collects headers without end, so that anybody could fill the web process' memory; and
uvicorn waits without end for what somebody has begun to say, so that anybody could keep all of
its connections.
"""

import asyncio
import re

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# More than browsers and proxies send; one read may hold the end of a body before a new head.
MOST = 512 * 1024
# Seconds for a whole head, and between two pieces of a body.
WITHIN = 60.0
# Java's and Apache's clients offer HTTP/2 or TLS with what they ask, and go on in HTTP/1.1 where
# nobody takes it up. httptools takes the body that follows for the other protocol's, and drops it.
_OFFER = re.compile(rb"\r\nupgrade:(?![ \t]*websocket[ \t]*\r)[^\r\n]*(?=\r\n)", re.IGNORECASE)


class BoundedHeads(HttpToolsProtocol):
    unfinished = 0  # bytes since the last head or piece of a body was complete
    _silence: asyncio.TimerHandle | None = None
    _is_between = True  # two requests

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.unfinished += len(data)
        if self._is_between:
            data = _without_offer(data)
        super().data_received(data)
        if self.unfinished > MOST:
            self.transport.close()
        if self.transport.get_protocol() is not self:
            self._expect_nothing()  # it is a socket's from now on
        elif self._silence is None and self.cycle.response_complete:
            self._expect()  # what was said is no beginning yet, such as an empty line

    def on_message_begin(self) -> None:
        self._is_between = False
        self._expect()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self.unfinished = 0
        self._expect()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.unfinished = 0
        self._expect()
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.unfinished = 0
        self._is_between = True
        self._expect_nothing()
        super().on_message_complete()

    def _expect(self) -> None:
        """More of what has begun."""
        self._expect_nothing()
        self._silence = self.loop.call_later(WITHIN, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None


def _without_offer(said: bytes) -> bytes:
    """The beginning of a request without the protocol that it would rather go on in."""
    head, gap, rest = said.partition(b"\r\n\r\n")
    return _OFFER.sub(b"", head + gap) + rest
