"""The process that downloads, and what it tells."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from servers.host.weights.fetch.places import DownloadSpec
from servers.host.weights.fetch.work import DownloadChild
from tests.waiting import PATIENCE


class HeardChild:
    """A child, and a way to wait for what it tells."""

    def __init__(self, job: DownloadSpec) -> None:
        self._news = threading.Event()
        self.child = DownloadChild(job, self._news.set)
        self.told: list[Mapping[str, Any]] = []

    def until(self, is_it: Callable[[Mapping[str, Any]], bool]) -> Mapping[str, Any]:
        while True:
            self._news.clear()
            new = self.child.take()
            self.told += new
            if found := next((each for each in new if is_it(each)), None):
                return found
            if self.child.has_ended and not new:
                raise AssertionError((self.told[-3:], self.child.last_words))
            assert self._news.wait(PATIENCE), self.told[-3:]
