"""Figures that engines write into their log every few seconds, gathered for a chart.

Also by the search's child, which has Python alone and is handed the rules.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

# What is charted: tokens a second, requests, percent of the KV cache.
FIELDS = ("generation", "prompt", "running", "queued", "kv")
# Of several parts of an engine (data parallel ranks) these are added up, the others averaged.
_ADDED = {"generation", "prompt", "running", "queued"}

NARROWEST = 10.0  # seconds of a bucket: as often as vLLM writes
MOST = 360  # buckets; with more, each becomes twice as wide
# Silence for so long is a gap in the chart, or for so many buckets.
GAP, GAP_BUCKETS = 60.0, 3

type Sums = dict[str, list[float]]  # field -> [sum, count]


@dataclass(frozen=True, kw_only=True)
class MetricRule:
    near: str  # a plain text that the line holds
    fields: Mapping[str, re.Pattern[str]]  # of FIELDS; group 1 is the figure
    who: re.Pattern[str] | None = None  # group 1 tells parts of an engine apart
    scale: Mapping[str, float] | None = None  # what a figure is multiplied by

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        return cls(
            near=said["near"],
            fields={name: re.compile(regex) for name, regex in said["fields"].items()},
            who=re.compile(said["who"]) if said.get("who") else None,
            scale=said.get("scale"),
        )

    def read(self, text: str) -> tuple[str, dict[str, float]]:
        """Whose figures these are, and the figures that stand in a line without colours."""
        at = text.find(self.near)
        if at < 0:
            return "", {}
        found = {}
        for name, regex in self.fields.items():
            if match := regex.search(text, at):
                found[name] = float(match[1]) * (self.scale or {}).get(name, 1.0)
        who = self.who.search(text) if self.who else None
        return (who[1] if who else ""), found


class Meter:
    """Figures in buckets of time. Fed with blocks of a log, or with what another one gathered."""

    def __init__(self, rules: Sequence[MetricRule] = (), *, width: float = NARROWEST) -> None:
        self._rules = rules
        self._width = width
        # Bucket -> (first line, {who -> sums})
        self._buckets: dict[int, tuple[int, dict[str, Sums]]] = {}

    def add(self, first: int, block: str, *, after: int = 0, upto: int = sys.maxsize) -> None:
        """These records without colours (`<at> <stream> <text>`) are the lines from `first` on.

        Lines up to `after` were read before, those behind `upto` are read later.
        """
        rules = [rule for rule in self._rules if rule.near in block]
        if not rules:
            return
        for number, record in enumerate(block.split("\n"), first):
            if not after < number <= upto:
                continue
            for rule in rules:
                if rule.near not in record:
                    continue
                at, _stream, text = record.split(" ", 2)
                who, figures = rule.read(text)
                if figures and (moment := _seconds(at)) is not None:
                    sums = {name: [figure, 1.0] for name, figure in figures.items()}
                    self._put(moment, number, who, sums)
                break

    def to_json(self) -> list[Any]:
        """For merge() in another process."""
        return [[at * self._width, line, parts] for at, (line, parts) in self._buckets.items()]

    def merge(self, gathered: Iterable[Any]) -> None:
        for at, line, parts in gathered:
            for who, sums in parts.items():
                self._put(at, line, who, sums)

    def series(self) -> dict[str, list[float | None]]:
        """Seconds under "t", first lines under "line", and each of FIELDS that was ever told.

        None: it was silent then.
        """
        told = {
            name
            for _line, parts in self._buckets.values()
            for sums in parts.values()
            for name in sums
        }
        fields = [name for name in FIELDS if name in told]
        found: dict[str, list[float | None]] = {name: [] for name in ("t", "line", *fields)}
        latest: dict[str, dict[str, tuple[float, float]]] = {name: {} for name in fields}
        gap, before = max(GAP, GAP_BUCKETS * self._width), None
        for bucket in sorted(self._buckets):
            line, parts = self._buckets[bucket]
            at = bucket * self._width
            if before is not None and at - before > gap:
                _append(found, {"t": before + self._width, "line": float(line)})
            before = at
            figures = {"t": at, "line": float(line)}
            for name in fields:
                for who, sums in parts.items():
                    if name in sums:
                        latest[name][who] = at, sums[name][0] / sums[name][1]
                # Parts write by turns: one that has just spoken counts still.
                fresh = [value for since, value in latest[name].values() if at - since <= gap]
                if fresh:
                    total = sum(fresh)
                    figures[name] = round(total if name in _ADDED else total / len(fresh), 3)
            _append(found, figures)
        return found

    def _put(self, at: float, line: int, who: str, sums: Mapping[str, Sequence[float]]) -> None:
        bucket = int(at // self._width)
        first, parts = self._buckets.setdefault(bucket, (line, {}))
        if line < first:
            self._buckets[bucket] = line, parts
        mine = parts.setdefault(who, {})
        for name, (total, count) in sums.items():
            kept = mine.setdefault(name, [0.0, 0.0])
            kept[0] += total
            kept[1] += count
        while len(self._buckets) > MOST:
            self._widen()

    def _widen(self) -> None:
        gathered = self.to_json()
        self._width, self._buckets = self._width * 2, {}
        self.merge(gathered)


def _append(found: dict[str, list[float | None]], figures: Mapping[str, float]) -> None:
    for name, values in found.items():
        values.append(figures.get(name))


def _seconds(at: str) -> float | None:
    try:
        return datetime.fromisoformat(at).timestamp()
    except ValueError:
        return None
