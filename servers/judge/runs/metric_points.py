"""Figures of an engine as points of a history, which are whole numbers. See judge.memory.history."""

from collections.abc import Mapping

from servers.judge.memory.history import Point
from servers.judge.runs.metrics import Figures

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


def point(figures: Figures) -> Point:
    """What is kept of them; a figure that is not known is left out."""
    return {name: round(each * SCALES[name]) for name, each in figures.to_json().items()}


def figure(column: str, kept: int) -> float:
    """What a column of a point, or the greatest of it (NAME_max), says. Raises KeyError."""
    return kept / SCALES[column.removesuffix("_max")]
