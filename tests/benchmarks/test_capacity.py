"""How many people a server serves within limits: the edge, what binds there, and the page."""

from dataclasses import replace
from typing import Any

import pytest
from django.urls import reverse

from servers.judge.benchmarks.capacity import (
    CapacityLimits,
    CrowdStep,
    choose_next,
    find_capacity,
    measure_step,
)
from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.points import PointConditions, summarise
from servers.models import Role
from tests import factories, measurements
from tests.cases import table

LIMITS = CapacityLimits(first=1.0, speed=20.0)


def point(people: int, first: float, speed: float, **conditions: Any) -> MeasuredPoint:
    timings = [
        measurements.timing(speed, first, number * 10.0, 64, 500)
        for number in range(3)
        for _person in range(people)
    ]
    figures = summarise(timings, concurrency=people)
    return MeasuredPoint(
        name="People at once", concurrency=people, prompt_tokens=500, output_tokens=64,
        rounds=(figures,) * 3, taints=(), conditions=(PointConditions(**conditions),) * 3,
    )  # fmt: skip


def step(people: int, first: float, speed: float) -> CrowdStep:
    return CrowdStep(people=people, first=first, speed=speed, is_clean=True, conditions=())


CASES: dict[str, tuple[list[Any], Any]] = {
    "all are kept": ([(1, 0.1, 90, {}), (8, 0.4, 30, {})], (8, None, "")),
    "one person is too many": ([(1, 3, 9, {}), (2, 4, 5, {})], (None, 1, "binds-alone")),
    "prompts wait for each other": (
        [(4, 0.5, 40, {}), (8, 1.4, 35, {})],
        (4, 8, "binds-prefill"),
    ),
    "each one's share is small": ([(4, 0.5, 40, {}), (8, 0.6, 12, {})], (4, 8, "binds-decode")),
    "there are too few seats": (
        [(4, 0.5, 40, {}), (8, 2, 35, {"running": 6, "waiting": 2, "kv_share": 0.4})],
        (4, 8, "binds-seats"),
    ),
    "the cache is full": (
        [(4, 0.5, 40, {}), (8, 2, 35, {"running": 6, "waiting": 2, "kv_share": 0.99})],
        (4, 8, "binds-kv"),
    ),
    "what is computed twice": (
        [(4, 0.5, 40, {}), (8, 0.9, 9, {"preemptions": 3, "kv_share": 0.97})],
        (4, 8, "binds-kv"),
    ),
    "we were too slow": (
        [(4, 0.5, 40, {}), (8, 2, 9, {"lag": 0.02})],
        (4, 8, "binds-client"),
    ),
    "luck above the edge counts for nothing": (
        [(4, 0.5, 40, {}), (8, 2, 35, {}), (16, 0.9, 30, {})],
        (4, 8, "binds-prefill"),
    ),
    "one size alone says nothing": ([(8, 0.4, 30, {})], None),
}


@table(("said", "expected"), CASES.values(), ids=CASES)
def test_the_edge_is_found_with_what_binds_there(
    said: list[tuple[int, float, float, dict[str, Any]]],
    expected: tuple[int | None, int | None, str] | None,
) -> None:
    found = find_capacity([point(*each[:3], **each[3]) for each in said], LIMITS)

    if expected is None:
        assert found is None
        return
    assert found is not None
    assert (found.kept.people if found.kept else None) == expected[0]
    assert (found.broken.people if found.broken else None) == expected[1]
    assert (found.binds.code if found.binds else "") == (
        f"benchmarks.{expected[2]}" if expected[2] else ""
    )


def test_the_slowest_tenth_counts_and_failures_are_no_speed() -> None:
    timings = [measurements.timing(40.0, 0.2, number, 64, 500) for number in range(27)]
    timings += [measurements.timing(10.0, 2.0, number, 64, 500) for number in range(4)]
    figures = summarise(timings, concurrency=1)
    made = replace(point(1, 0.2, 40.0), rounds=(figures,))

    found = measure_step(made)
    failing = measure_step(replace(made, rounds=(replace(figures, failed=1),)))

    assert found.first is not None
    assert found.speed is not None
    assert found.first > 1
    assert found.speed < 20
    assert (failing.first, failing.speed) == (None, None)


@pytest.mark.parametrize("edge", [1, 2, 3, 7, 13, 40, 100])
def test_the_search_ends_at_the_edge(edge: int) -> None:
    """Doubled until the limits break, then halved between: some ten sizes in all."""
    steps = [step(size, 0.1, 50 if size <= edge else 10) for size in (1, 2, 4, 8, 16, 32, 64, 128)]
    first = next((n for n, each in enumerate(steps) if not LIMITS.is_kept(each)), len(steps))
    steps = steps[: first + 1]
    while (size := choose_next(steps, LIMITS)) is not None:
        assert size not in {each.people for each in steps}
        steps.append(step(size, 0.1, 50 if size <= edge else 10))

    kept = max(each.people for each in steps if LIMITS.is_kept(each))
    assert kept <= edge <= kept + max(1, kept // 10)
    assert len(steps) <= 12


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_a_result_says_how_many_and_judges_by_other_limits() -> None:
    server = factories.server(factories.box("rtx8"))
    factories.run(server)
    made = measurements.benchmark(server, "crowd")
    address = reverse("benchmark", args=[made.pk])
    client = factories.log_in(factories.person("vera", Role.VIEWER))

    usual, strict, odd = (
        client.get(address, asked).content.decode()
        for asked in ({}, {"first": "0.2", "speed": "100"}, {"first": "soon", "speed": ""})
    )

    assert ">64 people<" in usual
    assert "With 128, the first token takes 1.4 s and each gets 13.8 tok/s." in usual
    assert ">2 people<" in strict
    assert "“soon” is no number." in odd
    assert ">64 people<" in odd
