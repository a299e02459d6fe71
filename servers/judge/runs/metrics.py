"""An engine's metrics over a span of time, from the counters at its two ends. Pure.

rule     the lint's rule whose fix makes the engine tell them
over     seconds that tokens are counted over to be tokens a second
steps    a counter of steps, of which each gives every running request a token: of an engine that
         counts a request's tokens only at its end
as_they_come  the one of the counters of generated tokens that does not wait for a request's end
born_late  whether a counter that is absent beside gauges has counted nothing so far
gauges   figure -> add or mean: how series become one, and the names, the newest first
counted  figure -> names of counters, the best first; those with {label="value"} count the series
         that have it
shares   figure -> the first of these that is there: part of another counter, part beside the
         rest, or a gauge whose series are averaged
seconds  figure -> names of histograms
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Self

import yaml

from servers.host.http.prometheus import Exposed
from servers.judge.memory.history import Point
from servers.launch.tables import load_yaml

FOLDER = Path(__file__).with_name("figures")
_GAUGES, _COUNTED = {"running", "queued", "kv"}, {"prompt", "generation", "preemptions"}
_SHARES, _SECONDS = {"prefix", "accepted"}, {"first", "token", "whole"}


class FigureBookError(Exception):
    """A file that cannot be used; the text names the file and what is wrong."""


@dataclass(frozen=True, kw_only=True)
class Gauge:
    names: tuple[str, ...]
    adds: bool  # else the mean of its series


@dataclass(frozen=True, kw_only=True)
class Share:
    """`part` of `of`, or of itself and `beside` together; or the gauge `mean`."""

    part: str = ""
    of: str = ""
    beside: str = ""
    mean: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.part, self.of, self.beside, self.mean) if name)


@dataclass(frozen=True, kw_only=True)
class MetricMap:
    engine: str
    rule: str
    over: float
    steps: str
    as_they_come: str
    born_late: bool
    gauges: Mapping[str, Gauge]
    counted: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, tuple[Share, ...]]
    seconds: Mapping[str, tuple[str, ...]]

    @property
    def names(self) -> frozenset[str]:
        """All metrics but histograms."""
        of_shares = (each.names for shares in self.shares.values() for each in shares)
        lists = (*(gauge.names for gauge in self.gauges.values()), *self.counted.values())
        steps = (self.steps,) if self.steps else ()
        return frozenset(name for names in (*lists, *of_shares, steps) for name in names)

    @property
    def counters(self) -> frozenset[str]:
        """Those metrics that only grow while the engine lives."""
        of_shares = (
            (each.part, each.of, each.beside) for shares in self.shares.values() for each in shares
        )
        lists = (*self.counted.values(), *of_shares, (self.steps,))
        return frozenset(name for names in lists for name in names if name)

    @property
    def histograms(self) -> frozenset[str]:
        return frozenset(name for names in self.seconds.values() for name in names)


@cache
def by_engine() -> dict[str, MetricMap]:
    """Raises FigureBookError."""
    return {book.engine: book for book in map(_book, sorted(FOLDER.glob("*.yaml")))}


def _book(path: Path) -> MetricMap:
    try:
        said = load_yaml(path.read_text(encoding="utf-8"))
        parts = [("gauges", _GAUGES), ("counted", _COUNTED), ("shares", _SHARES)]
        for part, known in [*parts, ("seconds", _SECONDS)]:
            if strange := (said.get(part) or {}).keys() - known:
                raise ValueError(f"{part} has figures that are not known: {strange}")
        return MetricMap(
            engine=said["engine"],
            rule=said["rule"],
            over=float(said["over"]),
            steps=said.get("steps", ""),
            as_they_come=said.get("as_they_come", ""),
            born_late=bool(said.get("born_late")),
            gauges={name: _gauge(each) for name, each in said["gauges"].items()},
            counted={name: tuple(each) for name, each in said["counted"].items()},
            shares={
                name: tuple(Share(**each) for each in shares)
                for name, shares in said["shares"].items()
            },
            seconds={name: tuple(each) for name, each in (said.get("seconds") or {}).items()},
        )
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise FigureBookError(f"{path.name}: {error!r}") from error


def _gauge(said: Mapping[str, Any]) -> Gauge:
    (how, names), *more = said.items()
    if more or how not in ("add", "mean"):
        raise ValueError(f"a gauge is either added or averaged: {dict(said)}")
    return Gauge(names=tuple(names), adds=how == "add")


# Seconds that live figures of latencies and shares tell of; rates tell of Book.over.
WINDOW = 60.0
# Of an engine that is known to count what it makes at once, or its steps.
SHORT_WINDOW = 4.0
# Seconds without a reading after which what was last said is old.
STALE = 15.0
MOST = 1e9  # what an engine claims beyond that is no figure
_MEANS = ("running", "queued", "kv")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """None: the engine does not say, or nothing was there to be measured.

    Requests; tokens a second; latencies in seconds, of which half and 95 % were at most so long;
    shares from 0 to 1; preemptions a minute.
    """

    running: float | None = None
    queued: float | None = None
    prompt: float | None = None
    generation: float | None = None
    first_p50: float | None = None
    first_p95: float | None = None
    token_p50: float | None = None
    token_p95: float | None = None
    whole_p50: float | None = None
    whole_p95: float | None = None
    kv: float | None = None
    prefix: float | None = None
    accepted: float | None = None
    preemptions: float | None = None

    @property
    def is_silent(self) -> bool:
        return all(value is None for value in asdict(self).values())

    @property
    def is_idle(self) -> bool:
        return not (self.running or self.queued or self.generation or self.prompt)

    def round(self) -> "Figures":
        """As exactly as people are told: what is equal so is not told anew."""
        return Figures(**{name: _round(name, each) for name, each in asdict(self).items()})

    def to_json(self) -> dict[str, float]:
        return {name: each for name, each in asdict(self).items() if each is not None}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Keys that are not known, of another version, are passed over."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: float(said[name]) for name in said.keys() & known})


@dataclass(frozen=True, kw_only=True)
class EngineReading:
    """`at`: seconds of a clock that is never set."""

    at: float
    exposed: Exposed


def compute_figures(book: MetricMap, old: EngineReading, new: EngineReading) -> Figures:
    """What happened from one reading to the next: gauges as they stand at its end.

    What was counted across a restart of the engine, whose counters begin anew, is not known.
    """
    begins_anew = has_begun_anew(book, old.exposed, new.exposed)
    took = new.at - old.at
    found: dict[str, float | None] = dict(gauges(book, new.exposed).to_json())
    if took <= 0 or begins_anew:
        return _drop_invalid(found)
    for name, names in book.counted.items():
        grown = _compute_growth(book, names, old.exposed, new.exposed)
        per = 60.0 if name == "preemptions" else 1.0
        found[name] = None if grown is None else grown / took * per
    found["generation"] = _compute_step_rate(book, old.exposed, new.exposed, took) or found.get(
        "generation"
    )
    for name, shares in book.shares.items():
        found[name] = _share(book, shares, old.exposed, new.exposed)
    for name, names in book.seconds.items():
        seen = _count_buckets(names, old.exposed, new.exposed)
        found[f"{name}_p50"] = quantile(0.5, seen)
        found[f"{name}_p95"] = quantile(0.95, seen)
    return _drop_invalid(found)


def gauges(book: MetricMap, exposed: Exposed) -> Figures:
    """What a single reading tells."""
    found: dict[str, float | None] = {}
    for name, gauge in book.gauges.items():
        told = next((each for each in gauge.names if each in exposed.totals), None)
        if told is None:
            continue
        value = exposed.totals[told] / (1 if gauge.adds else exposed.series[told])
        found[name] = max(value, 0.0) if gauge.adds else min(max(value, 0.0), 1.0)
    return _drop_invalid(found)


def live(book: MetricMap, readings: Sequence[EngineReading]) -> Figures:
    """The figures of now: of all readings, the oldest first, none of them older than WINDOW."""
    new = readings[-1]
    lately = [each for each in readings if new.at - each.at <= book.over] or [new]
    short = compute_figures(book, lately[0], new)
    whole = compute_figures(book, readings[0], new)
    rates = {"prompt": short.prompt, "generation": short.generation}
    steps = (
        _compute_growth(book, [book.steps], lately[0].exposed, new.exposed) if book.steps else None
    )
    if len(lately) > 1 and (steps or book.as_they_come in new.exposed.totals):
        latest = [each for each in lately if new.at - each.at <= SHORT_WINDOW]
        since = latest[0] if len(latest) > 1 else lately[-2]
        rates["generation"] = compute_figures(book, since, new).generation
    return Figures(**{**asdict(whole), **rates})


def is_speed(book: MetricMap, old: EngineReading, new: EngineReading) -> bool:
    """Whether the tokens between them were generated between them, and are not those of a long
    answer that was counted at its end."""
    if book.as_they_come:
        return book.as_they_come in new.exposed.totals
    if book.steps:
        was_idle = not any(gauges(book, each.exposed).running for each in (old, new))
        return was_idle or bool(_compute_growth(book, [book.steps], old.exposed, new.exposed))
    return True


def average_gauges(told: Iterable[Figures], whole: Figures) -> Figures:
    """`whole`, with the means of what gauges said at the moments within it."""
    each = list(told)
    found = asdict(whole)
    for name in _MEANS:
        values = [value for figures in each if (value := getattr(figures, name)) is not None]
        if values:
            found[name] = sum(values) / len(values)
    return Figures(**found)


def has_begun_anew(book: MetricMap, old: Exposed, new: Exposed) -> bool:
    """Whether a counter has fallen, or is gone: the engine was started again meanwhile."""
    for name in book.counters & old.totals.keys():
        if new.totals.get(name, -inf) < old.totals[name]:
            return True
    for name in book.histograms & old.buckets.keys():
        if _most(new.buckets.get(name, {})) < _most(old.buckets[name]):
            return True
    return False


def _compute_growth(
    book: MetricMap, names: Sequence[str], old: Exposed, new: Exposed
) -> float | None:
    name = next((each for each in names if each in new.totals), None)
    if name is None:
        return 0.0 if book.born_late and new.totals else None
    # A counter that was not there beside others has counted from its birth on.
    if name not in old.totals and not old.totals:
        return None
    return new.totals[name] - old.totals.get(name, 0.0)


def _compute_step_rate(book: MetricMap, old: Exposed, new: Exposed, took: float) -> float | None:
    """Tokens a second by the steps that were made; None where tokens are counted as they come, or
    no request was running at either end: then those that began have ended, and are counted."""
    steps = _compute_growth(book, [book.steps], old, new) if book.steps else None
    running = [gauges(book, each).running or 0.0 for each in (old, new)]
    if not steps or not any(running):
        return None
    return steps * max(sum(running) / len(running), 1.0) / took


def _share(book: MetricMap, shares: Sequence[Share], old: Exposed, new: Exposed) -> float | None:
    for share in shares:
        if not all(name in new.totals for name in share.names):
            continue
        if share.mean:
            value = new.totals[share.mean] / new.series[share.mean]
            # It stays as it was while nobody asks anything.
            is_used = any(_compute_growth(book, each, old, new) for each in book.counted.values())
            return value if is_used and 0 <= value <= 1 else None
        part = _compute_growth(book, [share.part], old, new)
        of = _compute_growth(book, [share.of or share.beside], old, new)
        if part is None or of is None:
            return None
        whole = of if share.of else part + of
        return min(part / whole, 1.0) if whole > 0 else None
    return None


def _count_buckets(names: Sequence[str], old: Exposed, new: Exposed) -> dict[float, float]:
    """How many of the span were at most so long, by bound."""
    name = next((each for each in names if each in new.buckets), None)
    if name is None or not (old.totals or old.buckets):
        return {}
    before = old.buckets.get(name, {})
    return {bound: count - before.get(bound, 0.0) for bound, count in new.buckets[name].items()}


def quantile(share: float, buckets: Mapping[float, float]) -> float | None:
    """The value that this share of what was seen did not exceed; None: nothing was seen.

    Taken to be spread evenly within a bucket, as Prometheus does it (histogram_quantile). What
    lies beyond the last bound is told as that bound: it was at least so much.
    """
    total = _most(buckets)
    if total <= 0:
        return None
    wanted, below, low = share * total, 0.0, 0.0
    for bound in sorted(buckets):
        count = max(buckets[bound], below)
        if count >= wanted and count > below:
            if bound == inf:
                break
            start = min(low, bound)
            return start + (bound - start) * (wanted - below) / (count - below)
        if bound != inf:
            low = bound
        below = count
    return low or None


def _most(buckets: Mapping[float, float]) -> float:
    return max(buckets.values(), default=0.0)


def _drop_invalid(found: Mapping[str, float | None]) -> Figures:
    """Without what is no figure: sums that overflow, and counters below nothing."""
    return Figures(
        **{name: each for name, each in found.items() if each is not None and 0 <= each <= MOST}
    )


def _round(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    if name in ("kv", "prefix", "accepted"):
        return round(value, 3)
    return float(f"{value:.3g}")


# Seconds that the finest points stand for.
FINEST = 10
# What figures are multiplied by: hundredths of requests, tenths of tokens, milliseconds, thousandths.
SCALES: Mapping[str, int] = {
    "running": 100,
    "queued": 100,
    "prompt": 10,
    "generation": 10,
    "first_p50": 1000,
    "first_p95": 1000,
    "token_p50": 100_000,
    "token_p95": 100_000,
    "whole_p50": 1000,
    "whole_p95": 1000,
    "kv": 1000,
    "prefix": 1000,
    "accepted": 1000,
    "preemptions": 100,
}


def make_point(figures: Figures) -> Point:
    """What is kept of them; a figure that is not known is left out."""
    return {name: round(each * SCALES[name]) for name, each in figures.to_json().items()}


def make_figure(column: str, kept: int) -> float:
    """What a column of a point, or the greatest of it (NAME_max), says. Raises KeyError."""
    return kept / SCALES[column.removesuffix("_max")]
