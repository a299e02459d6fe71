"""Reads the figures that matter out of Prometheus' text format."""

import re
from collections.abc import Collection
from math import isfinite

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
# Ranks that do the same work together report the same figure each, when they all report.
_SAME_WORK = {"tp_rank", "pp_rank"}


def totals(text: str, names: Collection[str]) -> dict[str, float]:
    """The value of each of these metrics, summed over its series; absent ones are left out.

    Series that differ only by tensor- or pipeline-parallel rank count once: SGLang repeats
    them with --enable-metrics-for-all-schedulers. Lines that cannot be read are skipped.
    """
    series: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for line in text.splitlines():
        name, labels, value = _split(line)
        if name not in names or value is None:
            continue
        pairs = _LABEL.findall(labels)
        kept = frozenset((key, text) for key, text in pairs if key not in _SAME_WORK)
        series.setdefault((name, kept), value)
    found: dict[str, float] = {}
    for (name, _labels), value in series.items():
        found[name] = found.get(name, 0.0) + value
    return found


def _split(line: str) -> tuple[str, str, float | None]:
    """One line as name, label text and value; the value is None for what is no sample."""
    if line.startswith("#"):
        return "", "", None
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
