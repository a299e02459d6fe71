"""A finding about hardware, and the samples and rules that lead to it."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, cast

from servers.judge.messages import Sentence

type Severity = Literal["info", "warning", "critical"]

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")  # worst first
BOX = "box"  # the subject of what is not about one card or folder


@dataclass(frozen=True, kw_only=True)
class HardwareFinding:
    """Rule and subject together name it for as long as it lasts."""

    rule: str  # one of RULES
    subject: str  # a GPU's UUID, BOX, or a folder
    severity: Severity
    title: str  # short; names the card or the folder
    because: str  # a sentence with the figures
    advice: str  # what to do
    since: float  # unix seconds
    code: str = ""  # of the message in messages.yaml; "": of an earlier version

    @property
    def key(self) -> tuple[str, str]:
        return self.rule, self.subject

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> "HardwareFinding":
        """Of to_json(); keys that this version does not know are left out."""
        values = {name: said[name] for name in cls.__dataclass_fields__ if name in said}
        values["severity"] = cast(Severity, values["severity"])
        return cls(**values)


def worst_first(findings: Iterable[HardwareFinding]) -> list[HardwareFinding]:
    """By severity; among equals the newest first."""
    return sorted(findings, key=lambda each: (SEVERITIES.index(each.severity), -each.since))


GIB = 2**30

type Card = Mapping[str, Any]


class HardwareSample:
    """Keys that an older recording lacks are None here, and accuse nobody."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self.sample = sample
        # A sample that is repeated because the collector hangs keeps its time.
        self.t = float(sample["t"]) + float(sample.get("stale_s") or 0)
        self.cards: list[Card] = list(sample.get("gpus") or [])

    @property
    def is_blind(self) -> bool:
        """Whether nothing is known of the cards now."""
        return self.sample.get("collector_ok") is False or self.sample.get("stale_s") is not None

    @property
    def is_unified(self) -> bool:
        return any(card.get("kind") == "unified" for card in self.cards)


def uuid(card: Card) -> str:
    """The card's UUID; its place where it has none."""
    return str(card.get("uuid") or f"gpu-{card.get('index')}")


def build_finding(
    rule: str,
    subject: str,
    since: float,
    said: Sentence,
    *more: Sentence,
    severity: Severity | None = None,
    advice: str = "",
) -> HardwareFinding:
    """A finding of a message; `more` goes on after it. `severity` and `advice`: other than its own."""
    return HardwareFinding(
        rule=rule,
        subject=subject,
        severity=severity or cast(Severity, said.severity),
        title=said.title,
        because=" ".join(each.text for each in (said, *more)),
        advice=advice or said.advice,
        since=since,
        code=said.code,
    )


class HardwareRule(ABC):
    """Looks at every sample in its order, and says what is wrong now."""

    ids: ClassVar[tuple[str, ...]]  # of RULES
    needs_cards: ClassVar[bool] = False  # not asked while nothing is known of the cards

    @abstractmethod
    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]: ...


class CardRule(HardwareRule):
    """Looks at each card by itself."""

    needs_cards = True

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        for card in now.cards:
            yield from self.look(now, card)

    @abstractmethod
    def look(self, now: HardwareSample, card: Card) -> Iterator[HardwareFinding]: ...


RULES = (
    "gpu_lost",
    "gpu_reset",
    "gpu_answer",
    "driver",
    "collector",
    "xid",
    "driver_memory",
    "ecc_uncorrected",
    "ecc_corrected",
    "row_remapping",
    "retired_pages",
    "thermal",
    "power_brake",
    "low_power",
    "pcie_link",
    "pcie_replays",
    "persistence",
    "memory_pressure",
    "swap",
    "disk",
)


# Samples come each second; after a longer pause nobody knows what was in between.
PAUSE = 15.0
# So many looks at least make a window.
_LEAST = 5


@dataclass(kw_only=True)
class _Run:
    first: float
    last: float  # when it was so
    seen: float  # when it was looked at
    is_on: bool = False


class Lasting:
    """Told once it has been so without a break for `enter`, until it has not been for `leave`."""

    def __init__(self, *, enter: float, leave: float) -> None:
        self._enter, self._leave = enter, leave
        self._runs: dict[str, _Run] = {}

    def find_start(self, key: str, t: float, is_so: bool | None) -> float | None:
        """Unix seconds since when; None: it is not told. `is_so` None: nobody knows just now."""
        run = self._runs.get(key)
        if is_so and (run is None or self._is_broken(run, t)):
            run = self._runs[key] = _Run(first=t, last=t, seen=t)
        if run is None:
            return None
        is_over = is_so is False and t - run.last >= self._leave
        if is_so:
            run.last = t
            run.is_on = run.is_on or t - run.first >= self._enter
        elif is_over or not run.is_on:
            del self._runs[key]
            return None
        run.seen = t
        return run.first if run.is_on else None

    def _is_broken(self, run: _Run, t: float) -> bool:
        # A clock that was set back makes a new beginning, too.
        return t < run.seen or (not run.is_on and t - run.seen > PAUSE)


@dataclass(kw_only=True)
class _Window:
    looks: deque[tuple[float, bool]] = field(default_factory=deque)
    so: int = 0
    since: float | None = None


class Often:
    """For what comes and goes within seconds: the part of the last `window` in which it was so."""

    def __init__(self, *, window: float, enter: float, leave: float) -> None:
        """`enter` and `leave` are parts of one."""
        self._window, self._enter, self._leave = window, enter, leave
        self._windows: dict[str, _Window] = {}

    def find_start(self, key: str, t: float, is_so: bool) -> float | None:
        """Unix seconds since when it has been so often; None: it has not."""
        window = self._windows.setdefault(key, _Window())
        looks = window.looks
        if looks and not 0 <= t - looks[-1][0] <= PAUSE:
            looks.clear()
            window.so = 0
        looks.append((t, is_so))
        window.so += is_so
        while looks[0][0] <= t - self._window:
            window.so -= looks.popleft()[1]
        if len(looks) >= _LEAST and t - looks[0][0] >= 0.8 * self._window:
            part = window.so / len(looks)
            if window.since is None and part >= self._enter:
                window.since = next(at for at, was_so in looks if was_so)
            elif window.since is not None and part < self._leave:
                window.since = None
        return window.since

    def current(self, key: str) -> float | None:
        """What since() said last; for moments that tell nothing."""
        window = self._windows.get(key)
        return window.since if window else None

    def part(self, key: str) -> float:
        """Of one; 0 before anything was seen."""
        window = self._windows.get(key)
        return window.so / len(window.looks) if window and window.looks else 0.0


class Rise:
    """How far counters have risen in the last `within` seconds, as far as was watched."""

    def __init__(self, *, within: float) -> None:
        self._within = within
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def add(self, key: str, t: float, count: int | None) -> int:
        """The rise of a card's counter, which stands at `count` at `t`; None: it is not told."""
        if count is None:
            return 0
        seen = self._seen.setdefault(key, deque())
        if seen and (count < seen[-1][1] or t < seen[-1][0]):
            seen.clear()  # the driver was loaded anew, or the clock was set back
        # Only changes are kept, and the last value before them.
        if not seen or count != seen[-1][1]:
            seen.append((t, count))
        while len(seen) > 1 and seen[1][0] <= t - self._within:
            seen.popleft()
        return count - seen[0][1]
