"""A job on images while its thread does it: how far it is, and whether it is still wanted."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from django.db import connection
from django.db.utils import InterfaceError, OperationalError
from django.utils import timezone

from servers import events
from servers.models import Box, ImageJob

log = logging.getLogger(__name__)

TELL_EVERY = 0.5  # seconds


class HeldError(Exception):
    """Something speaks against it that a person may overrule; the text says what."""


class ImageJobError(Exception):
    """It cannot be done; the text says why, and what to do."""


class Closable(Protocol):
    def close(self) -> None: ...


class ImageWork:
    def __init__(self, job: ImageJob) -> None:
        self.job = job
        self.box: Box = job.box
        self._stream: Closable | None = None
        self._given_up = threading.Event()
        self._noted: dict[str, Any] = {}

    @property
    def is_given_up(self) -> bool:
        return self._given_up.is_set()

    def follow(self, stream: Closable) -> None:
        """What give_up() closes: Docker does it only while somebody reads."""
        self._stream = stream
        if self.is_given_up:  # a moment before
            stream.close()

    def give_up(self) -> None:
        self._given_up.set()
        if self._stream is not None:
            with suppress(OSError):
                self._stream.close()

    @contextmanager
    def report_progress(self, tell: Callable[[], None]) -> Iterator[None]:
        """Call `tell` twice a second meanwhile, however silent Docker is, and once at the end."""
        is_over = threading.Event()
        thread = threading.Thread(target=self._tell, args=[tell, is_over], daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()
            tell()

    def _tell(self, tell: Callable[[], None], is_over: threading.Event) -> None:
        try:
            while not is_over.wait(TELL_EVERY):
                try:
                    tell()
                except (OperationalError, InterfaceError) as error:
                    log.warning("The database is away: %s", error)
        finally:
            connection.close()

    def note(self, **values: Any) -> None:
        """Write down what is new."""
        new = {name: value for name, value in values.items() if self._noted.get(name) != value}
        self._noted |= new
        mine = ImageJob.objects.filter(pk=self.job.pk)
        if new:
            mine.update(changed_at=timezone.now(), **new)
            events.publish_change("jobs")
        # The wish to end it may have come while Redis was away, and nobody was woken.
        if not self.is_given_up and mine.filter(cancel_requested=True).exists():
            self.give_up()
