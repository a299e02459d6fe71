"""A cache of Docker's descriptions of external containers."""

import threading
import time

from servers.host.external.containers import ExternalContainer
from servers.lifecycle.runs import creation

# What changes without an event of its container, such as a network that it joins, is seen then.
EVERY = 30.0


class ContainerCache:
    """Docker is asked for a list each time, and looks anew only at what may be another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, ExternalContainer] = {}
        self._forgotten: set[str] = set()
        self._forgets_all = False
        self._read_at = float("-inf")

    def forget(self, container_id: str) -> None:
        """Something has happened to it."""
        with self._lock:
            self._known.pop(container_id, None)
            self._forgotten.add(container_id)

    def forget_all(self) -> None:
        """Something may have happened that nobody heard of."""
        with self._lock:
            self._known = {}
            self._forgets_all = True

    def list_running(self) -> list[ExternalContainer]:
        """As Docker's others(). Raises ContainerError."""
        with self._lock:
            if time.monotonic() - self._read_at >= EVERY:
                self._known = {}
                self._read_at = time.monotonic()
            known = dict(self._known)
            self._forgotten, self._forgets_all = set(), False
        others = creation.docker().others(known)
        with self._lock:
            # What happened while Docker told them may have come after its answer.
            kept = () if self._forgets_all else others
            self._known = {
                each.container.id: each for each in kept if each.container.id not in self._forgotten
            }
        return others
