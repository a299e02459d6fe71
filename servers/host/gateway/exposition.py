"""The writer of Prometheus' text format, version 0.0.4."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class ExpositionError(ValueError):
    """A name that the format does not allow, or one series twice; the text names it."""


@dataclass
class MetricFamily:
    """One metric with its series. A value of None is left out: nothing is claimed."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    series: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)

    def add(self, value: float | None, **labels: object) -> None:
        """Raises ExpositionError for labels that are there already."""
        if value is None:
            return
        key = tuple((name, str(text)) for name, text in labels.items())
        if key in self.series:
            raise ExpositionError(f"{self.name}{dict(key)} is there twice.")
        self.series[key] = value


class Families:
    """Families by name, in the order in which they were first asked for."""

    def __init__(self) -> None:
        self._known: dict[str, MetricFamily] = {}

    def gauge(self, name: str, help: str) -> MetricFamily:
        return self._known.setdefault(name, MetricFamily(name=name, kind="gauge", help=help))

    def counter(self, name: str, help: str) -> MetricFamily:
        return self._known.setdefault(name, MetricFamily(name=name, kind="counter", help=help))

    def text(self) -> str:
        return render(self._known.values())


def render(families: Iterable[MetricFamily]) -> str:
    """The families as text; those without a series are left out.

    Raises ExpositionError for names that Prometheus refuses. Source: prometheus.io,
    instrumenting/exposition_formats.
    """
    lines: list[str] = []
    for family in families:
        if not family.series:
            continue
        _check(family)
        lines.append(f"# HELP {family.name} {_escape(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for labels, value in family.series.items():
            lines.append(f"{family.name}{_labels(dict(labels))} {_number(value)}")
    return "".join(f"{line}\n" for line in lines)


def _check(family: MetricFamily) -> None:
    if not _NAME.fullmatch(family.name):
        raise ExpositionError(f"“{family.name}” is no name of a metric.")
    if (family.kind == "counter") != family.name.endswith("_total"):
        raise ExpositionError(f"{family.name}: counters, and only they, end in _total.")
    for labels in family.series:
        for name, _text in labels:
            if not _LABEL.fullmatch(name) or name.startswith("__"):
                raise ExpositionError(f"{family.name}: “{name}” is no name of a label.")


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (
        f'{name}="{_escape(text).replace(chr(34), chr(92) + chr(34))}"'
        for name, text in labels.items()
    )
    return f"{{{','.join(pairs)}}}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    if isnan(value):
        return "NaN"
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
