"""History of clean results: what changed between one and the next, and what that did to the speed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from servers.judge.benchmarks.comparison import MeasuredPoint, SpeedChange, compare_speed
from servers.judge.benchmarks.facts import MeasuredFact, list_changes


@dataclass(frozen=True, kw_only=True)
class HistoryEntry:
    """A clean result, `key` among all."""

    key: int
    at: datetime
    on: Mapping[str, Any]
    points: tuple[MeasuredPoint, ...]


@dataclass(frozen=True, kw_only=True)
class HistoryStep:
    """An entry beside the one before it; the first has none, and nothing changed."""

    entry: HistoryEntry
    changed: tuple[MeasuredFact, ...] = ()
    change: SpeedChange | None = None


@dataclass(frozen=True, kw_only=True)
class HistoryTurn:
    """The newest entry beside the last one from before something changed."""

    before: HistoryEntry
    first: HistoryStep  # with which it changed
    newest: HistoryEntry
    change: SpeedChange | None


def list_steps(entries: Sequence[HistoryEntry]) -> list[HistoryStep]:
    """In the order of `entries`, oldest first."""
    steps = [HistoryStep(entry=each) for each in entries[:1]]
    for before, after in zip(entries, entries[1:], strict=False):
        steps.append(
            HistoryStep(
                entry=after,
                changed=tuple(list_changes(before.on, after.on)),
                change=compare_speed(before.points, after.points),
            )
        )
    return steps


def find_turn(steps: Sequence[HistoryStep]) -> HistoryTurn | None:
    """The last change that is known; None where nothing has changed since the first entry."""
    for place in range(len(steps) - 1, 0, -1):
        if steps[place].changed:
            before, newest = steps[place - 1].entry, steps[-1].entry
            return HistoryTurn(
                before=before,
                first=steps[place],
                newest=newest,
                change=compare_speed(before.points, newest.points),
            )
    return None
