"""Under which names engines tell their figures: figures/*.yaml, a file an engine.

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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

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
        said = yaml.safe_load(path.read_text(encoding="utf-8"))
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
