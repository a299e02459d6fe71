"""Discovery of external engines: each is asked until it has answered once."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from servers.watcher.external.identify import EngineIdentity, identify
from servers.watcher.runs.probe_queue import Questions

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
