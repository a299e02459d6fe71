"""Discovery of external engines: each is asked until it has answered once, then what it is asked for.

Requests are counted while somebody looks, and of those that nobody monitors: many write a line into
their log for each question, so that nobody asks for nobody.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from servers.host.external.containers import ExternalContainer
from servers.host.runs import probes
from servers.host.runs.probes import Endpoint, PortKind
from servers.judge.external.engines import Answer, DiscoveredEngine
from servers.launch.engines import SERVING
from servers.launch.engines.engine import Engine
from servers.lifecycle.runs import creation
from servers.models import Box, Run
from servers.state import samples
from servers.watcher.runs.probes import MOST_REQUESTS, Questions

LONGEST_VERSION = 60
MOST_NAMES, LONGEST_NAME = 8, 200
# An older name of SGLang's, which newer ones warn of.
_OLDER_PATHS = {"sglang": ("/get_server_info",)}


@dataclass(frozen=True, kw_only=True)
class EngineIdentity:
    """What became of asking. `engine` is "" where nothing of an engine answered."""

    answer: Answer = "silent"
    engine: str = ""
    version: str = ""
    models: tuple[str, ...] = ()
    address: str = ""
    port: int = 0
    is_other: bool = False  # something answered that is no engine


def identify(
    ways: Sequence[Sequence[tuple[str, int]]],
    *,
    hint: str,
    key: str,
    is_its: Callable[[int], bool],
) -> EngineIdentity:
    """Ask port by port until one answers as an engine does.

    `ways` are the addresses of each port, of which one that answers anything is enough. `hint` is the engine by its command line, "" where that names none. `is_its` says of a port
    of the box whether it is the container's.
    """
    best = EngineIdentity()
    for addresses in ways:
        for address, port in addresses:
            if not is_its(port):
                continue
            heard = _ask(Endpoint(address=address, port=port, key=key), hint)
            if heard.answer == "serves":
                return heard
            if heard.answer != "silent" or heard.is_other:
                best = heard
                break
    return best


def _ask(endpoint: Endpoint, hint: str) -> EngineIdentity:
    said = probes.list_models(endpoint)
    address, port = endpoint.address, endpoint.port
    if said.kind is PortKind.NOTHING:
        return EngineIdentity()
    if said.kind in (PortKind.LOADING, PortKind.LOCKED):
        # Without a hint it may be anything that is not well, or that keeps strangers out.
        answer: Answer = "loading" if said.kind is PortKind.LOADING else "locked"
        is_other = not hint and answer == "locked"
        answer = answer if hint else "silent"
        return EngineIdentity(
            answer=answer, engine=hint, is_other=is_other, address=address, port=port
        )
    if said.kind is PortKind.OTHER:
        return EngineIdentity(is_other=True)
    engine, version = _engine(endpoint, said.owners, hint)
    if not engine:
        return EngineIdentity(is_other=True)
    names = tuple(_printable(name, LONGEST_NAME) for name in said.names[:MOST_NAMES])
    return EngineIdentity(
        answer="serves", engine=engine, version=version, models=names, address=address, port=port
    )


def _engine(endpoint: Endpoint, owners: frozenset[str], hint: str) -> tuple[str, str]:
    """Its key and version; "" for what only speaks their language, such as a proxy."""
    named = next((key for key in SERVING if key in owners), "")
    if named:
        return named, _version(endpoint, SERVING[named])
    if hint:
        return hint, _version(endpoint, SERVING[hint])
    if owners <= {""}:
        for engine in SERVING.values():
            if version := _version(endpoint, engine):
                return engine.key, version
    return "", ""


def _version(endpoint: Endpoint, engine: Engine) -> str:
    for path in (engine.version_path, *_OLDER_PATHS.get(engine.key, ())):
        if found := probes.version(endpoint, path, engine.version_key):
            return _printable(found, LONGEST_VERSION)
    return ""


def _printable(text: str, most: int) -> str:
    return "".join(filter(str.isprintable, text))[:most]


# Pauses before one that was silent is asked again, and how often: weights may take an hour.
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
_MOST_ASKS = 16
_HINTED_PAUSE = 60.0

type Life = tuple[str, str]  # a container or process, and the moment it was started
type Ways = tuple[tuple[tuple[str, int], ...], ...]


def _always(port: int) -> bool:
    return True


@dataclass
class DiscoveredLife:
    """What is known of one life."""

    hint: str  # the engine by its command; "": it names none
    ways: Ways = ()  # of each port
    # Of a process, which listens when it is ready to: ways are looked for each time.
    find_ways: Callable[[], Ways] | None = None
    key: str = ""
    # Whether a port of the box is its own, which somebody else may have taken.
    is_its: Callable[[int], bool] = _always
    heard: EngineIdentity | None = None
    asks: int = 0
    due: float = 0.0

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing more to ask."""
        if self.heard is None:
            return not self.ways and self.find_ways is None
        if self.heard.answer == "serves":
            return True
        return not self.hint and (self.heard.is_other or self.asks >= _MOST_ASKS)


class EngineDiscovery:
    def __init__(self) -> None:
        self._known: dict[Life, DiscoveredLife] = {}
        self._numbers: dict[Life, int] = {}
        self._next = 0
        self._questions: Questions[tuple[Life, EngineIdentity]] = Questions("find")

    def keep(self, lives: Mapping[Life, Callable[[], DiscoveredLife]]) -> None:
        """Exactly these; of those that are new, what a first look at them says."""
        self._known = {life: self._known.get(life) or first() for life, first in lives.items()}
        for life in self._known:
            if life not in self._numbers:
                self._next += 1
                self._numbers[life] = self._next
        self._numbers = {life: self._numbers[life] for life in self._known}

    def find_life(self, life: Life) -> DiscoveredLife:
        return self._known[life]

    def iterate_known(self) -> Iterator[tuple[Life, DiscoveredLife]]:
        yield from self._known.items()

    def ask(self) -> None:
        now = time.monotonic()
        for life, known in self._known.items():
            number = self._numbers[life]
            if known.is_settled or known.due > now or self._questions.is_open(number):
                continue
            known.asks += 1
            pause = min(_FIRST_PAUSE * 2 ** (known.asks - 1), _LONGEST_PAUSE)
            known.due = now + (min(pause, _HINTED_PAUSE) if known.hint else pause)
            ways = known.find_ways() if known.find_ways else known.ways
            ask = partial(identify, ways, hint=known.hint, key=known.key, is_its=known.is_its)
            self._questions.ask(number, partial(_identify, life, ask))

    def hear(self, *, until: float) -> None:
        for _number, (life, heard) in self._questions.answers(until=until):
            if life in self._known:
                self._known[life].heard = heard


def _identify(life: Life, ask: Callable[[], EngineIdentity]) -> tuple[Life, EngineIdentity]:
    return life, ask()


type Count = tuple[int | None, int | None]  # that run, and that wait; None: it does not say
HEAR_FOR = 1.0  # seconds


class ExternalUsage:
    def __init__(self, box: Box) -> None:
        self.box = box
        self._questions: Questions[tuple[str, Count]] = Questions("count")
        self._numbers: dict[str, int] = {}

    def counts(self, found: Mapping[str, tuple[DiscoveredEngine, str]]) -> dict[str, Count]:
        """By key, of those that serve; `found` are they with what their callers are asked for."""
        if not samples.is_looked_at(self.box.slug):
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
