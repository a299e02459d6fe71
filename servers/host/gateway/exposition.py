"""Families of metrics, written in Prometheus' text format 0.0.4."""

import re
from collections.abc import Iterable
from typing import Literal

from prometheus_client import generate_latest
from prometheus_client.core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# The library takes any UTF-8, and writes underscores for what older Prometheus servers refuse.
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")


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
        if odd := [name for name in texts if not _LABEL.fullmatch(name)]:
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
