"""HTTP as uvicorn speaks it, with a bound on what comes before a body.

httptools collects headers without end, so that anybody could fill the web process' memory.
"""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# More than browsers and proxies send; one read may hold the end of a body before a new head.
MOST = 512 * 1024


class BoundedHeads(HttpToolsProtocol):
    unfinished = 0  # bytes since the last head or piece of a body was complete

    def data_received(self, data: bytes) -> None:
        self.unfinished += len(data)
        super().data_received(data)
        if self.unfinished > MOST:
            self.transport.close()

    def on_headers_complete(self) -> None:
        self.unfinished = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.unfinished = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self.unfinished = 0
        super().on_message_complete()
