"""Whether the clocks of the boxes agree that a start runs over."""

from typing import Any

import pytest

from servers.host.kernel.resources import ahead_of
from servers.judge.profiles.preflight import ClockOffset, PreflightItem
from servers.lifecycle.profiles import preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models import Box, HostResources
from tests import factories
from tests.runs.test_preflight import around, checked

GOOD = ClockOffset(ahead=0.004, within=0.001)


def test_the_quickest_of_several_answers_counts() -> None:
    # Asked at, heard at: the third answer takes 0.1 s, the others 2 s and more.
    own = iter([10.0, 14.0, 20.0, 22.0, 30.0, 30.1, 40.0, 43.0, 50.0, 52.0])
    there = iter([7.0, 15.5, 24.95, 34.0, 46.0])

    found = ahead_of(lambda: next(there), lambda: next(own))

    assert found.seconds == pytest.approx(5.1)
    assert found.within == pytest.approx(0.05)


def clock_of(clocks: dict[str, ClockOffset | None], *flags: str) -> PreflightItem | None:
    return checked(around(box="spark-1", clocks=clocks), *flags).get("clock")


def test_one_box_that_agrees_with_itself_says_nothing() -> None:
    assert clock_of({"spark-1": GOOD}) is None
    assert clock_of({"spark-1": None}) is None


def test_a_box_whose_times_are_off_is_told_by_how_much() -> None:
    found = clock_of({"spark-1": ClockOffset(ahead=-42.04, within=0.2)})
    ahead = clock_of({"spark-1": ClockOffset(ahead=7200, within=0.2)})

    assert found is not None
    assert ahead is not None
    assert found.level == "warning"
    assert "42.0 s behind inferdash's own" in found.says
    assert "on spark-1: sudo timedatectl set-ntp true" in found.remedy
    assert "120 min ahead of" in ahead.says


def test_what_the_comparison_may_be_off_is_no_difference() -> None:
    assert clock_of({"spark-1": ClockOffset(ahead=3, within=2.5)}) is None


TWO = ("--tensor-parallel-size", "2", "--nnodes", "2")


@pytest.mark.parametrize(
    ("other", "level", "says"),
    [
        (GOOD, "ok", "The clocks of spark-1, spark-2 agree"),
        (
            ClockOffset(ahead=8, within=0.1),
            "warning",
            "the clock of spark-2 is 8.0 s ahead of spark-1's",
        ),
        (
            ClockOffset(ahead=-8, within=0),
            "warning",
            "the clock of spark-1 is 8.0 s ahead of spark-2's",
        ),
        (None, "unknown", "spark-2 has not reported its time lately"),
    ],
)
def test_a_start_over_two_boxes_compares_their_clocks(
    other: ClockOffset | None, level: str, says: str
) -> None:
    found = clock_of({"spark-1": GOOD, "spark-2": other}, *TWO)

    assert found is not None
    assert found.level == level
    assert says in found.says


@pytest.mark.django_db
def test_a_silent_box_has_no_clock_that_counts() -> None:
    told: dict[str, Any] = {"clock": {"seconds": 0.5, "within": 0.01}}
    boxes = [factories.box("spark-1"), factories.box("spark-2", seen_at=None)]
    for box in boxes:
        factories.observation(HostResources, box, found=told)
    factories.box("spark-3")
    server = factories.server(Box.objects.get(slug="spark-1"), "wide", "minimax-m2.7")
    launch = server.profile.launch

    items = {
        each.id: each
        for each in preflight.check(LaunchContext(launch, boxes[0], server.profile)).items
    }

    assert "clock" not in items
    assert preflight.clocks({each: HostResources.objects.find(each) for each in Box.objects.all()}) == {
        "spark-1": ClockOffset(ahead=0.5, within=0.01), "spark-2": None, "spark-3": None,
    }  # fmt: skip
