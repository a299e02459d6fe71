"""Who is stopped to make room for a start on request, and who never is."""

from datetime import UTC, datetime, timedelta
from typing import Any

from servers.judge.runs.gpu_conflicts import (
    FRESH,
    GpuConflict,
    GpuHolder,
    GpuRequest,
    OnDemandRun,
    OtherRun,
    make_room,
)
from tests.samples import GIB

NOW = datetime(2026, 11, 22, 4, 0, tzinfo=UTC)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def served(run: int, *, asked: float | None = 10, **values: Any) -> OnDemandRun:
    usual = {"ready_at": ago(60), "requests_running": 0}
    last = None if asked is None else ago(asked)
    return OnDemandRun(run=run, last_request_at=last, **{**usual, **values})


def holder(run: int, size: float | None = 40, kind: Any = "server") -> GpuHolder:
    other = OtherRun(run=run, name=f"s{run}", by="ada", since=ago(90), state="ready", gpus=None)
    held = None if size is None else int(size * GIB)
    return GpuHolder(kind=kind, name=f"s{run}", other=other, held=held)


def found(*holders: GpuHolder) -> GpuConflict:
    start = GpuRequest(patience="asked", gpus=frozenset({0}))
    return GpuConflict(start=start, holders=holders)


def stops(taken: GpuConflict, *mine: OnDemandRun, lacking: float = 0) -> list[int]:
    return list(make_room(taken, mine, lacking=int(lacking * GIB), now=NOW).stops)


def test_the_one_that_was_asked_nothing_for_longest_is_stopped_first() -> None:
    both = found(holder(1), holder(2))

    assert stops(both, served(1, asked=5), served(2, asked=50)) == [2, 1]
    assert stops(both, served(1, asked=5), served(2, asked=50), lacking=30) == [2]


def test_as_many_are_stopped_as_their_measured_memory_makes_necessary() -> None:
    three = found(holder(1, 10), holder(2, 10), holder(3, 60))
    mine = served(1, asked=30), served(2, asked=20), served(3, asked=10)

    assert stops(three, *mine, lacking=15) == [1, 2]
    assert stops(three, *mine, lacking=25) == [1, 2, 3]


def test_memory_that_nobody_can_tell_counts_for_nothing() -> None:
    mine = served(1, asked=30), served(2, asked=20)

    assert stops(found(holder(1, None), holder(2, 40)), *mine, lacking=15) == [1, 2]


def test_one_that_serves_is_never_stopped_and_waited_for() -> None:
    for busy in (served(1, requests_running=1), served(1, is_passing=True)):
        made = make_room(found(holder(1)), [busy], lacking=0, now=NOW)
        assert (made.stops, made.in_the_way) == ((), ())


def test_one_that_has_just_become_ready_gets_the_request_that_it_was_started_for() -> None:
    fresh = NOW - FRESH / 2

    assert stops(found(holder(1)), served(1, asked=None, ready_at=fresh)) == []
    # What it was asked in an earlier life says nothing of this one.
    assert served(1, asked=50, ready_at=ago(5)).idle_since(NOW) == ago(5)


def test_what_a_person_has_started_is_in_the_way_and_so_is_a_strange_program() -> None:
    process = GpuHolder(kind="process", name="process 7 (python)", held=8 * GIB)
    by_hand = holder(2)

    made = make_room(found(holder(1), by_hand, process), [served(1)], lacking=0, now=NOW)

    assert made.stops == (1,)
    assert made.in_the_way == (by_hand, process)


def test_nobody_is_in_the_way_of_what_fits_once_idle_ones_are_gone() -> None:
    made = make_room(found(holder(1), holder(2)), [served(1)], lacking=30 * GIB, now=NOW)

    assert (made.stops, made.in_the_way) == ((1,), ())


def test_what_loads_waits_or_ends_is_waited_for() -> None:
    loading, ending = holder(1, kind="loading"), holder(2)

    made = make_room(found(loading, ending), [served(2, ready_at=None)], lacking=0, now=NOW)

    assert (made.stops, made.in_the_way) == ((), ())
