"""A thread that reads a log ahead of the database."""

import threading
from collections.abc import Iterator
from itertools import accumulate

from servers.host.logs.log_stream import LogStream, LogStreamError
from servers.models.logs.redaction import mask_tokens

BATCH_LINES = 8192
BATCH_BYTES = 4 * 1024 * 1024
# So many lines wait for the database before Docker has to.
READ_AHEAD = 4 * BATCH_LINES
READ_AHEAD_BYTES = 4 * BATCH_BYTES


class LogReadAhead(threading.Thread):
    """Reads records ahead of the database, so that neither waits for the other's pauses."""

    def __init__(self, source: LogStream, found: Iterator[bytes]) -> None:
        super().__init__(name="log-stream", daemon=True)
        self._source = source
        self._found = found
        self._changed = threading.Condition()
        self._read: list[bytes] = []
        self._size = 0  # of these, in bytes
        self._is_closed = False
        self.has_more = False  # than the last batch could hold
        self.has_ended = False
        self.error: LogStreamError | None = None
        self.start()

    def run(self) -> None:
        try:
            for record in self._found:
                with self._changed:
                    self._read.append(record)
                    self._size += len(record)
                    if len(self._read) == 1:
                        self._changed.notify_all()
                    while self._is_full and not self._is_closed:
                        self._changed.wait()
                    if self._is_closed:
                        return
        except LogStreamError as error:
            self.error = error
        finally:
            with self._changed:
                self.has_ended = True
                self._changed.notify_all()

    def take(self) -> list[bytes]:
        """What was read since the last call; waits for it, and [] means the end."""
        with self._changed:
            while not self._read and not self.has_ended and not self._is_closed:
                self._changed.wait()
            count = BATCH_LINES
            if self._size > BATCH_BYTES:
                sizes = accumulate(map(len, self._read[:BATCH_LINES]))
                count = max(1, sum(1 for size in sizes if size <= BATCH_BYTES))
            batch, self._read = self._read[:count], self._read[count:]
            self._size -= sum(map(len, batch))
            self.has_more = bool(self._read)
            self._changed.notify_all()
        return mask_tokens(batch)

    @property
    def _is_full(self) -> bool:
        return len(self._read) >= READ_AHEAD or self._size >= READ_AHEAD_BYTES

    def close(self) -> None:
        self._source.close()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
