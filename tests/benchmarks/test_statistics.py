"""Percentiles and intervals, and how often two equal things are called different."""

import random

import pytest

from servers.judge.benchmarks.statistics import (
    compare_rounds,
    compare_together,
    estimate,
    percentile,
)
from tests.cases import table


@table(
    ("count", "share", "value"),
    [
        (0, 0.5, None),
        (1, 0.5, 0.0),
        (101, 0.5, 50.0),
        (29, 0.9, None),
        (31, 0.9, 27.0),
        (299, 0.99, None),
    ],
)
def test_a_percentile_has_enough_behind_it(count: int, share: float, value: float | None) -> None:
    assert percentile([float(each) for each in range(count)], share) == (
        None if value is None else pytest.approx(value)
    )


def test_rounds_have_an_interval_and_one_has_none() -> None:
    found = estimate([49.9, 44.8, 41.1, 45.7, 46.6])
    assert found.mean == pytest.approx(45.62)
    # t(4) × 3.15 / √5
    assert (found.low, found.high) == pytest.approx((41.71, 49.53), abs=0.05)
    assert not estimate([45.0]).is_sure
    with pytest.raises(ValueError, match="no round"):
        estimate([])


def test_a_difference_is_real_or_not_or_cannot_be_told() -> None:
    assert compare_rounds([100, 101, 99], [80, 81, 79]).is_real is True
    assert compare_rounds([100, 110, 90], [98, 112, 91]).is_real is False
    assert compare_rounds([100, 100.1, 99.9], [101, 101.1, 100.9]).is_real is False, (
        "1 % is too little"
    )
    assert compare_rounds([100], [50]).is_real is None
    assert compare_rounds([100, 100], [100, 100]).is_real is False
    assert compare_rounds([100, 100], [90, 90]).is_real is True


def test_equal_builds_are_rarely_accused_and_slower_ones_found() -> None:
    chance = random.Random(7)  # noqa: S311 - the same in each run

    def rounds(mean: float) -> list[float]:
        return [chance.gauss(mean, 2.0) for _ in range(5)]

    accused = sum(bool(compare_rounds(rounds(100), rounds(100)).is_real) for _ in range(1000))
    found = sum(bool(compare_rounds(rounds(100), rounds(90)).is_real) for _ in range(1000))
    assert accused <= 30, accused
    assert found >= 950, found

    def pairs(share: float) -> list[tuple[list[float], list[float]]]:
        return [(rounds(mean)[:3], rounds(share * mean)[:3]) for mean in (100, 500, 90)]

    accused = sum(bool(compare_together(pairs(1)).is_real) for _ in range(1000))
    found = sum(bool(compare_together(pairs(0.9)).is_real) for _ in range(1000))
    assert accused <= 10, accused
    assert found >= 950, found


def test_several_figures_change_as_one() -> None:
    halved = compare_together(
        [([100, 101, 99], [50, 50.5, 49.5]), ([10, 10.1, 9.9], [20, 20.2, 19.8])]
    )
    assert halved.change == pytest.approx(0.0, abs=1e-9)
    assert halved.is_real is False
    slower = compare_together([([100, 101, 99], [80, 81, 79]), ([100], [10])])
    assert slower.change == pytest.approx(-0.2, abs=0.001), "one round beside three says nothing"
    assert slower.low < -0.2 < slower.high < 0
    assert compare_together([([100], [80])]).is_real is None
    with pytest.raises(ValueError, match="no figure"):
        compare_together([])
