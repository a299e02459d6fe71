"""Request counts of external engines that nobody monitors, while somebody looks.

Many write a line into their log for each question, so that nobody asks for nobody.
"""

import threading
import time
from collections.abc import Mapping
from functools import partial

from servers.host.external.containers import ExternalContainer
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint
from servers.judge.external.engines import DiscoveredEngine
from servers.launch.engines import SERVING
from servers.launch.engines.engine import Engine
from servers.lifecycle.runs import creation
from servers.models import Box, Run
from servers.state import box_samples
from servers.watcher.runs.probes import MOST_REQUESTS, Questions

type Count = tuple[int | None, int | None]  # that run, and that wait; None: it does not say
HEAR_FOR = 1.0  # seconds


class ExternalUsage:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._questions: Questions[tuple[str, Count]] = Questions("count")
        self._numbers: dict[str, int] = {}

    def counts(self, found: Mapping[str, tuple[DiscoveredEngine, str]]) -> dict[str, Count]:
        """By key, of those that serve; `found` are they with what their callers are asked for."""
        if not box_samples.is_looked_at(self.box.slug):
            return {}
        watched = set(Run.objects.active().filter_external().values_list("container_id", flat=True))
        for key, (each, secret) in found.items():
            if each.answer != "serves" or key in watched or each.engine not in SERVING:
                continue
            number = self._numbers.setdefault(key, len(self._numbers) + 1)
            if not self._questions.is_open(number):
                endpoint = Endpoint(address=each.address, port=each.port, key=secret)
                ask = partial(_count, key, endpoint, SERVING[each.engine])
                self._questions.ask(number, ask)
        heard = self._questions.answers(until=time.monotonic() + HEAR_FOR)
        return {key: count for _number, (key, count) in heard if count != (None, None)}


def _count(key: str, endpoint: Endpoint, engine: Engine) -> tuple[str, Count]:
    names = (engine.running_metric, engine.waiting_metric)
    told = probes.metrics(endpoint, names, engine.metrics_path)
    running, waiting = (_whole(told.get(name)) for name in names)
    if running is None and engine.slots_path:
        running = probes.busy_slots(endpoint, engine.slots_path)
    return key, (running, waiting)


def _whole(figure: float | None) -> int | None:
    return None if figure is None else int(min(max(figure, 0), MOST_REQUESTS))


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
