"""The writer of log lines: each once, in order, through failures of the database."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection

from servers import events
from servers.host.docker.containers import ContainerError
from servers.host.logs.log_stream import LogStreamError
from servers.host.logs.printed import PrintedError
from servers.models import LogChunk, Run
from servers.models.logs.log import LogMovedError, StoredLine
from servers.models.people import data_disk

log = logging.getLogger(__name__)

RETRY_FIRST, RETRY_MOST = 0.25, 5.0

# Set with every batch that is stored, of whichever run.
grew = threading.Event()

# One transaction at a time: SQLite lets those who wait for another sleep, unfairly and for long.
_appending = threading.Lock()


class LogWriter(threading.Thread, ABC):
    """A thread that reads the log of one run. Who derives from it says how (_read_to_end)."""

    def __init__(self, run_id: int) -> None:
        super().__init__(name=f"log-{run_id}", daemon=True)
        self.run_id = run_id
        self.is_busy = False
        self._stopping = threading.Event()
        self._upto = 0
        self._trouble = ""
        self._is_set_back = False  # the database is an older one by now
        self._is_out_of_step = False
        # Columns of the run that are kept with the lines: how far they were read.
        self._beside: dict[str, Any] = {}

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            self.follow()
        finally:
            connection.close()

    def follow(self) -> None:
        """Store the log until it is whole or stop() is called."""
        wait = RETRY_FIRST
        while not self._stopping.is_set():
            before = self._upto
            if self._attempt(self._read_to_end):
                return
            got_on = self._upto > before or not self._trouble
            wait = RETRY_FIRST if got_on else min(wait * 2, RETRY_MOST)
            # A log that runs ahead of its reader is not waited with.
            is_late = self._is_out_of_step and self._upto > before
            self._stopping.wait(0 if is_late else wait)

    def _attempt(self, work: Callable[[], bool]) -> bool:
        """Do it, or say once what is in the way and return False."""
        try:
            is_done = work()
        except Run.DoesNotExist:
            return True  # deleted together with its log
        except (ContainerError, LogStreamError) as error:
            self._tell_once(f"Docker does not hand out the log: {error}")
        except PrintedError as error:
            self._tell_once(str(error))
        except LogMovedError:
            self._tell_once("another watcher stores the same log; is inferdash running twice?")
        except (DatabaseError, InterfaceError) as error:
            self._tell_once(data_disk.describe_full_disk(error) or f"the database is away: {error}")
            close_old_connections()
        else:
            self._trouble = ""
            return is_done
        return False

    def _tell_once(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning("Log of run %s: %s Trying again.", self.run_id, trouble)

    @abstractmethod
    def _read_to_end(self) -> bool:
        """Store what there is until nothing more can be read; whether the log is whole."""

    def _store(self, batch: list[bytes]) -> None:
        """Keep trying until the batch is stored; only a stop gives up on it."""
        wait = RETRY_FIRST
        while batch and not self._attempt(lambda: self._append(batch)):
            if self._stopping.wait(wait):
                return
            wait = min(wait * 2, RETRY_MOST)

    def _append(self, batch: list[bytes]) -> bool:
        try:
            with _appending:
                self._upto = LogChunk.objects.append(self.run_id, self._upto, batch, **self._beside)
        except LogMovedError:
            # The connection may have been lost after the commit of an earlier attempt.
            upto = self._upto + len(batch)
            if Run.objects.values_list("log_lines", flat=True).get(pk=self.run_id) < self._upto:
                # What it has lost is read from Docker again, and this batch with it.
                self._is_set_back = True
                return True
            if LogChunk.objects.lines(self.run_id, upto - 1, 2) != [_line(upto, batch[-1])]:
                raise
            self._upto = upto
        events.publish_log_growth(self.run_id, self._upto)
        grew.set()
        return True


def _line(number: int, record: bytes) -> StoredLine:
    at, stream, text = record.decode().split(" ", 2)
    return StoredLine(number, at, stream, text)
