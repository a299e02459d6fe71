"""What is kept of samples: packed, rolled up, across restarts, clock jumps and a lost database."""

import itertools
import time
from typing import Any

import pytest
from django.db import OperationalError
from hypothesis import given
from hypothesis import strategies as st

from servers.contexts.memory import read_gpu_points
from servers.judge.memory import history, holders
from servers.judge.memory.history import SPANS, Point, Series
from servers.models import Box, HistoryChunk
from servers.watcher.memory.monitor import HistoryRecorder
from tests import factories, samples
from tests.samples import GIB

NOON = 1_795_262_400  # by UTC
COLUMN = st.sampled_from(["util", "power", "used", "=free", "=server:a", "=process:b", "=cache"])
POINT = st.dictionaries(COLUMN, st.integers(0, 2**38))
SERIES = st.dictionaries(
    st.sampled_from(["GPU-a", "GPU-b"]),
    st.dictionaries(st.integers(NOON, NOON + 86400), POINT, max_size=40),
    max_size=2,
)


@given(SERIES)
def test_what_is_packed_comes_back_as_it_was(series: Series) -> None:
    assert history.unpack(history.pack(series)) == series


@given(st.lists(POINT, min_size=1, max_size=30))
def test_a_rolled_up_point_lies_between_what_it_stands_for(points: list[Point]) -> None:
    found = history.roll_up(points)

    for name in {name for each in points for name in each}:
        is_part = name.startswith("=")
        values = [
            each[name] for each in points if name in each and (not is_part or "=free" in each)
        ]
        if not is_part:
            assert min(values) <= found[name] <= max(values) == found[f"{name}_max"]
        elif values:
            assert 0 <= found[name] <= max(values)


REACH = {1: NOON - 3600, 10: NOON - 86400, 60: NOON - 30 * 86400, 600: NOON - 30 * 86400}


@given(since=st.floats(0, 40 * 86400), span=st.floats(1, 40 * 86400), most=st.integers(10, 1000))
def test_a_range_is_told_in_no_more_points_than_asked(since: float, span: float, most: int) -> None:
    begins = NOON - since

    step, width = history.plan(begins, begins + span, reach=REACH, first=REACH[600], most=most)

    assert width % step == 0
    assert span / width <= most
    assert begins >= REACH[step] - 600 or step == max(SPANS) or begins < REACH[60]


@pytest.mark.parametrize(
    ("ago", "span", "expected"),
    [
        (600, 600, (1, 1)),
        (3600, 3600, (1, 4)),
        (20 * 3600, 600, (10, 10)),
        (86400, 86400, (60, 120)),
        (7 * 86400, 1800, (60, 60)),
        (30 * 86400, 30 * 86400, (600, 3000)),
    ],
)
def test_a_range_is_told_as_finely_as_it_is_kept(
    ago: int, span: int, expected: tuple[int, int]
) -> None:
    begins = NOON - ago

    found = history.plan(begins, begins + span, reach=REACH, first=REACH[600], most=1000)

    assert found == expected


def test_what_was_recorded_for_an_hour_only_is_fine_in_a_longer_range_too() -> None:
    midnight = NOON // 86400 * 86400
    reach = {1: NOON - 3600, 10: NOON - 3600, 60: NOON - 3600, 600: midnight}

    found = history.plan(NOON - 86400, NOON, reach=reach, first=NOON - 3600, most=1000)

    assert found == (60, 120)


def test_a_point_keeps_the_largest_holders_by_name_and_adds_up() -> None:
    held = [(pid, 1.0 + pid / 10) for pid in range(12)]
    known = [samples.process(pid, name=f"job-{pid}") for pid in range(12)]
    (gpu,) = holders.gpus(samples.sample([samples.card(0, held)], known), {})

    found = history.point(gpu)

    parts = {name: size for name, size in found.items() if name.startswith("=")}
    assert gpu.total is not None
    assert abs(sum(parts.values()) - gpu.total / 1024) < len(gpu.ledger.parts if gpu.ledger else ())
    assert "=process:job-11" in parts
    assert "=process:job-1" not in parts
    assert parts["=others"] > 4 * 2**20


def test_gpus_together_add_memory_and_power_up() -> None:
    one: Point = {"util": 40, "util_max": 90, "power": 3000, "temperature": 60, "=free": 10}
    other: Point = {"util": 60, "power": 1000, "temperature": 50, "=free": 5, "=cache": 1}

    assert history.together([one, other]) == {
        "util": 50, "util_max": 90, "power": 4000, "temperature": 60, "=free": 15, "=cache": 1,
    }  # fmt: skip


def test_a_chart_has_a_gap_where_nothing_was_seen_and_zero_where_a_part_was_not_there() -> None:
    times = {NOON: {"=free": 5, "=cache": 1, "util": 3}, NOON + 20: {"=free": 6}}

    found = history.columns(times, NOON, NOON + 30, 10)

    assert found == {
        "t": [NOON, NOON + 10, NOON + 20],
        "columns": {"=cache": [1, None, 0], "=free": [5, None, 6], "util": [3, None, None]},
    }


class HistoryClock:
    """Time as the watcher sees it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.steady = float(NOON), 1000.0
        monkeypatch.setattr(time, "time", lambda: self.wall)
        monkeypatch.setattr(time, "monotonic", lambda: self.steady)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HistoryClock:
    return HistoryClock(monkeypatch)


def seen(keeper: HistoryRecorder, clock: HistoryClock, seconds: int, held: float = 40.0) -> None:
    told = samples.sample([samples.card(0, [(1, held)])], [samples.process(1)])
    for _second in range(seconds):
        keeper.see({**told, "t": clock.wall})
        clock.passes(1)


def stored(box: Box, step: int) -> dict[int, Point]:
    """By the second, from all chunks of a step, of the only GPU."""
    found: dict[int, Point] = {}
    for chunk in HistoryChunk.objects.filter(box=box, step=step):
        for times in history.unpack(bytes(chunk.body)).values():
            assert not found.keys() & times.keys()
            found |= times
    return dict(sorted(found.items()))


pytestmark = pytest.mark.django_db


def test_minutes_are_stored_as_they_end_and_the_last_one_on_an_orderly_end(
    box: Box, clock: HistoryClock
) -> None:
    keeper = HistoryRecorder(box)

    seen(keeper, clock, 130)
    assert list(stored(box, 1)) == list(range(NOON, NOON + 120))
    keeper.write()

    assert list(stored(box, 1)) == list(range(NOON, NOON + 130))
    assert list(stored(box, 10)) == list(range(NOON, NOON + 130, 10))
    assert list(stored(box, 60)) == [NOON, NOON + 60, NOON + 120]
    assert list(stored(box, 600)) == [NOON]


def test_a_minute_that_two_watchers_share_is_rolled_up_as_one(
    box: Box, clock: HistoryClock
) -> None:
    first = HistoryRecorder(box)
    seen(first, clock, 25, held=40.0)
    first.write()
    clock.passes(5)
    second = HistoryRecorder(box)
    seen(second, clock, 30, held=20.0)
    second.write()

    (minute,) = stored(box, 60).values()
    seconds = stored(box, 1)
    assert len(seconds) == 55
    mean = sum(each["=process:VLLM::EngineCore"] for each in seconds.values()) / 55
    assert minute["=process:VLLM::EngineCore"] == pytest.approx(mean, abs=1)
    assert minute["used_max"] == max(each["used"] for each in seconds.values())
    assert len(stored(box, 10)) == 6


def test_a_day_is_rolled_up_without_gaps_across_restarts(box: Box, clock: HistoryClock) -> None:
    told = samples.sample([samples.card(0, [(1, 9.0)])], [samples.process(1)])
    for begins, ends in itertools.pairwise([0, 1000, 1777, 5000, 7200]):
        keeper = HistoryRecorder(box)
        for second in range(begins, ends, 5):
            clock.wall = NOON + second
            clock.steady += 5
            keeper.see({**told, "t": clock.wall})
        keeper.write()

    assert list(stored(box, 60)) == list(range(NOON, NOON + 7200, 60))
    assert list(stored(box, 600)) == list(range(NOON, NOON + 7200, 600))


def test_a_clock_that_is_set_back_loses_nothing(box: Box, clock: HistoryClock) -> None:
    keeper = HistoryRecorder(box)
    seen(keeper, clock, 90, held=10.0)
    clock.wall -= 80
    seen(keeper, clock, 120, held=30.0)
    keeper.write()

    seconds = stored(box, 1)
    assert list(seconds) == list(range(NOON, NOON + 130))
    name = "=process:VLLM::EngineCore"
    assert seconds[NOON + 5][name] == 10 * 2**20
    assert seconds[NOON + 50][name] == 30 * 2**20


def test_a_database_that_is_away_for_a_while_costs_nothing(
    box: Box, clock: HistoryClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = HistoryRecorder(box)
    with monkeypatch.context() as away:

        def refuse(*_args: Any, **_kwargs: Any) -> None:
            raise OperationalError("database is locked")

        away.setattr(HistoryChunk, "save", refuse)
        told = samples.sample([samples.card(0, [])], [])
        failures = 0
        for _second in range(300):
            try:
                keeper.see({**told, "t": clock.wall})
            except OperationalError:
                failures += 1
            clock.passes(1)
        assert 10 < failures < 30
    seen(keeper, clock, 30)
    keeper.write()

    assert list(stored(box, 1)) == list(range(NOON, NOON + 330))


def test_what_is_only_repeated_is_not_kept(box: Box, clock: HistoryClock) -> None:
    keeper = HistoryRecorder(box)
    keeper.see({**samples.sample([samples.card(0, [])], []), "t": clock.wall, "stale_s": 6.0})
    keeper.write()

    assert not HistoryChunk.objects.exists()


def test_a_box_without_a_gpu_keeps_nothing(box: Box, clock: HistoryClock) -> None:
    keeper = HistoryRecorder(box)
    keeper.see({**samples.sample([samples.card(0, [])], []), "t": clock.wall, "gpus": []})
    keeper.write()

    assert not HistoryChunk.objects.exists()


def old(box: Box, step: int, start: int) -> None:
    body = history.pack({"GPU-a": {start: {"util": 1}}})
    HistoryChunk.objects.create(box=box, step=step, start=start, body=body)


def test_what_is_too_old_goes_once_the_clock_has_gone_steadily_for_an_hour(
    box: Box, clock: HistoryClock
) -> None:
    other = factories.box("spark-1")
    for step, age in ((1, 7200), (10, 2 * 86400), (60, 31 * 86400), (600, 33 * 86400)):
        old(box, step, NOON - age)
        old(other, step, NOON - age)
    old(box, 60, NOON - 29 * 86400)
    keeper = HistoryRecorder(box)

    seen(keeper, clock, 2)
    assert HistoryChunk.objects.filter(box=box).count() == 5
    clock.passes(3700)
    seen(keeper, clock, 2)

    left = HistoryChunk.objects.filter(box=box, start__lt=NOON - 86400).values_list(
        "start", flat=True
    )
    assert list(left) == [NOON - 29 * 86400]
    assert HistoryChunk.objects.filter(box=other).count() == 4


def test_a_clock_that_jumps_a_year_ahead_costs_no_old_points(box: Box, clock: HistoryClock) -> None:
    keeper = HistoryRecorder(box)
    old(box, 60, NOON - 86400)
    seen(keeper, clock, 2)
    clock.passes(4000)
    clock.wall += 365 * 86400
    seen(keeper, clock, 2)
    clock.passes(700)
    seen(keeper, clock, 2)
    clock.wall -= 365 * 86400

    assert HistoryChunk.objects.filter(box=box, start=NOON - 86400).exists()


def test_all_gpus_are_read_as_one_or_each_for_itself(box: Box, clock: HistoryClock) -> None:
    keeper = HistoryRecorder(box)
    cards = [samples.card(0, [(1, 40.0)]), samples.card(1, [(2, 20.0)])]
    told = samples.sample(cards, [samples.process(1), samples.process(2)])
    for _second in range(120):
        keeper.see({**told, "t": clock.wall})
        clock.passes(1)
    keeper.write()

    name = "=process:VLLM::EngineCore"
    both = read_gpu_points(box, 10, 60, NOON, NOON + 120)
    one = read_gpu_points(box, 60, 60, NOON, NOON + 60, gpu=cards[1]["uuid"])

    assert {t: point[name] * 1024 for t, point in both.items()} == {
        NOON: 60 * GIB,
        NOON + 60: 60 * GIB,
    }
    assert one[NOON][name] * 1024 == 20 * GIB
