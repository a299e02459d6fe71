"""Metrics in Prometheus' text format 0.0.4: engines' are read, inferdash's own written."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Literal

from prometheus_client import generate_latest
from prometheus_client.core import Metric

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
# Ranks that do the same work together report the same figure each, when they all report.
_SAME_WORK = {"tp_rank", "pp_rank", "moe_ep_rank"}


@dataclass(frozen=True, kw_only=True)
class Exposed:
    """What was asked for and is there: nothing at all where metrics are off.

    `totals` are summed over a metric's series, `series` says over how many. `buckets` are those of
    histograms, summed too: by its upper bound, how many were seen that are at most so large.
    """

    totals: Mapping[str, float] = field(default_factory=dict)
    series: Mapping[str, int] = field(default_factory=dict)
    buckets: Mapping[str, Mapping[float, float]] = field(default_factory=dict)


def totals(text: str, names: Collection[str]) -> dict[str, float]:
    """The value of each of these metrics, summed over its series; absent ones are left out. Of
    name{label="value"} those series alone that have this label.

    Series that differ only by a rank that works on the same requests count once: SGLang repeats
    them with --enable-metrics-for-all-schedulers. Lines that cannot be read are skipped.
    """
    return dict(read(text, names).totals)


def read(text: str, names: Collection[str], histograms: Collection[str] = ()) -> Exposed:
    """These metrics, and the buckets of these histograms; see totals()."""
    of_bucket = {f"{name}_bucket": name for name in histograms}
    wanted: dict[str, list[tuple[str, set[tuple[str, str]]]]] = {}
    for asked in (*names, *of_bucket):
        name, _, label = asked.partition("{")
        wanted.setdefault(name, []).append((asked, set(_LABEL.findall(label))))
    series: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for line in text.splitlines():
        # Most lines are not asked for, and are not looked at any closer.
        # A page or JSON that somebody answers here instead has some without any name.
        first = line.partition("{")[0].split(None, 1)[:1]
        if not first or line[0] == "#" or first[0] not in wanted:
            continue
        name, labels, value = _split(line)
        if value is None:
            continue
        kept = frozenset(pair for pair in _LABEL.findall(labels) if pair[0] not in _SAME_WORK)
        for asked, selected in wanted[name]:
            if selected <= kept:
                series.setdefault((asked, kept), value)
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    buckets: dict[str, dict[float, float]] = {}
    for (name, kept), value in series.items():
        if name not in of_bucket:
            sums[name] = sums.get(name, 0.0) + value
            counts[name] = counts.get(name, 0) + 1
        elif (bound := _bound(kept)) is not None:
            mine = buckets.setdefault(of_bucket[name], {})
            mine[bound] = mine.get(bound, 0.0) + value
    return Exposed(totals=sums, series=counts, buckets=buckets)


def _bound(labels: frozenset[tuple[str, str]]) -> float | None:
    """A bucket's upper bound; None where it has none that can be read."""
    text = dict(labels).get("le", "")
    try:
        bound = float(text)
    except ValueError:
        return None
    return bound if isfinite(bound) or bound == inf else None


def _split(line: str) -> tuple[str, str, float | None]:
    """One line as name, label text and value; the value is None for what is no sample."""
    name, brace, rest = line.partition("{")
    if brace:
        labels, _, tail = rest.rpartition("}")
    else:
        name, _, tail = line.partition(" ")
        labels = ""
    fields = tail.split()
    try:
        number = float(fields[0]) if fields else None
    except ValueError:
        number = None
    # A gauge may be NaN before its first observation: that is no figure.
    return name.strip(), labels, number if number is not None and isfinite(number) else None


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# The library takes any UTF-8, and writes underscores for what older Prometheus servers refuse.
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


class ExpositionError(ValueError):
    """A name that the format does not allow, or one series twice; the text names it."""


class MetricFamily(Metric):
    """One metric with its series. A value of None is left out: nothing is claimed."""

    def __init__(self, name: str, kind: Literal["gauge", "counter"], help: str) -> None:
        """Raises ExpositionError for a name that Prometheus refuses."""
        if not _NAME.fullmatch(name):
            raise ExpositionError(f"“{name}” is no name of a metric.")
        if (kind == "counter") != name.endswith("_total"):
            raise ExpositionError(f"{name}: counters, and only they, end in _total.")
        super().__init__(name.removesuffix("_total"), help, kind)
        self._name = name
        self._known: set[tuple[tuple[str, str], ...]] = set()

    def add(self, value: float | None, **labels: object) -> None:
        """Raises ExpositionError for a label's name, or labels that are there already."""
        if value is None:
            return
        texts = {name: str(text) for name, text in labels.items()}
        if odd := [name for name in texts if not _LABEL_NAME.fullmatch(name)]:
            raise ExpositionError(f"{self._name}: “{odd[0]}” is no name of a label.")
        key = tuple(sorted(texts.items()))
        if key in self._known:
            raise ExpositionError(f"{self._name}{texts} is there twice.")
        self._known.add(key)
        self.add_sample(self._name, texts, value)


class Families:
    """Families by name, in the order in which they were first asked for."""

    def __init__(self) -> None:
        self._known: dict[str, MetricFamily] = {}

    def gauge(self, name: str, help: str) -> MetricFamily:
        return self._known.setdefault(name, MetricFamily(name, "gauge", help))

    def counter(self, name: str, help: str) -> MetricFamily:
        return self._known.setdefault(name, MetricFamily(name, "counter", help))

    def collect(self) -> Iterable[Metric]:
        """Those that have a series, as the library reads them."""
        return [each for each in self._known.values() if each.samples]

    def text(self) -> str:
        return generate_latest(self).decode()
