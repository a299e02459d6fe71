"""Whether a ready engine is well is judged by looks at it, and by whether it answers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from servers.judge.runs.health import (
    Condition,
    HealthLook,
    HealthRecord,
    HealthVerdict,
    ProbeOutcome,
)
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import Launch

BEGAN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def watched(
    seconds: float, *, after: HealthRecord | None = None, begin: float = 0, **look: Any
) -> HealthRecord:
    """A look every other second, from `begin` on; `pulse` may be a function of the second."""
    record = after or HealthRecord()
    second = begin
    while second <= begin + seconds:
        values = {"answer": "ok", "took": 0.01, "requests": 0, "pulse": (100.0,), **look}
        values = {key: each(second) if callable(each) else each for key, each in values.items()}
        record = record.add_look(HealthLook(at=at(second), **values))
        second += 2
    return record


def says(record: HealthRecord) -> HealthVerdict:
    return record.verdict("/health")


def test_who_answers_and_has_nothing_to_do_is_healthy() -> None:
    assert says(watched(3600)) == HealthVerdict(condition=Condition.HEALTHY)


def test_who_generates_under_load_is_healthy_for_hours() -> None:
    assert says(watched(7200, requests=40, pulse=lambda second: (second, 7.0))) == HealthVerdict(
        condition=Condition.HEALTHY
    )


def test_a_dead_scheduler_behind_a_green_health_path_is_unhealthy_after_four_minutes() -> None:
    busy = watched(60, requests=3, pulse=lambda second: (second,))

    soon = watched(30, after=busy, begin=62, requests=3, pulse=(60.0,))
    later = watched(120, after=busy, begin=62, requests=3, pulse=(60.0,))
    late = watched(260, after=busy, begin=62, requests=3, pulse=(60.0,))

    assert says(soon).condition is Condition.UNSURE
    assert says(later).condition is Condition.SLOW
    assert says(late) == HealthVerdict(
        condition=Condition.UNHEALTHY,
        because="answers /health, but has generated nothing with 3 requests running",
        since=at(60),
    )


def test_a_long_prompt_generates_nothing_for_minutes_and_is_no_fault() -> None:
    reads = watched(1200, requests=1, pulse=lambda second: (500.0, 0.001 * second))

    assert says(reads).condition is Condition.HEALTHY


def test_who_tells_no_figures_is_not_judged_by_them() -> None:
    assert says(watched(3600, requests=2, pulse=())).condition is Condition.HEALTHY


def test_it_is_healthy_again_as_soon_as_something_moves() -> None:
    dead = watched(300, requests=1)
    assert says(dead).condition is Condition.UNHEALTHY

    assert says(watched(0, after=dead, begin=302, requests=1, pulse=(101.0,))).condition is (
        Condition.HEALTHY
    )


def test_requests_that_end_without_a_token_are_no_proof() -> None:
    dead = watched(300, requests=1)

    assert says(watched(0, after=dead, begin=302, requests=0)).condition is Condition.HEALTHY


@pytest.mark.parametrize(
    ("answer", "after", "because"),
    [
        ("refused", 30, "nothing listens on its port, although its container runs"),
        ("loading", 60, "answers 503 on /health: the engine inside has died, or is shutting down"),
        ("silent", 120, "does not answer /health"),
        ("unhealthy", 120, "answers /health with an error"),
    ],
)
def test_a_health_path_that_fails_for_long_enough_is_unhealthy(
    answer: str, after: float, because: str
) -> None:
    well = watched(10)

    soon = watched(after - 4, after=well, begin=12, answer=answer, pulse=(), requests=None)
    late = watched(after + 2, after=well, begin=12, answer=answer, pulse=(), requests=None)

    assert says(soon).condition is not Condition.UNHEALTHY
    assert says(late) == HealthVerdict(condition=Condition.UNHEALTHY, because=because, since=at(12))


def test_two_looks_are_not_enough_however_far_apart() -> None:
    first = HealthRecord().add_look(
        HealthLook(at=at(0), answer="refused", took=0, requests=None, pulse=())
    )

    second = first.add_look(
        HealthLook(at=at(50), answer="refused", took=0, requests=None, pulse=())
    )

    assert says(second).condition is Condition.UNSURE


def test_an_image_without_the_health_path_is_not_ill() -> None:
    assert says(watched(3600, answer="unhealthy")).condition is Condition.HEALTHY


def test_what_nobody_looked_at_is_not_counted() -> None:
    """The machine slept, or the watcher was restarted: another request may run now."""
    before = watched(20, requests=1)

    after = watched(10, after=before, begin=4000, requests=1)

    assert says(after).condition is Condition.UNSURE
    assert says(after).since == at(4000)


def test_an_answer_that_takes_seconds_is_slow() -> None:
    assert says(watched(2, took=3.1)).condition is Condition.HEALTHY
    slow = says(watched(8, took=3.1))
    assert (slow.condition, slow.because) == (Condition.SLOW, "/health takes more than 2 s")
    quiet = says(watched(15, answer="silent", pulse=(), requests=None))
    assert (quiet.condition, quiet.because) == (Condition.SLOW, "does not answer /health")


def test_two_questions_without_an_answer_are_unhealthy_and_one_answer_cures() -> None:
    record = watched(600)

    once = record.add_probe(ProbeOutcome.FAILED, at(600))
    twice = watched(70, after=once, begin=602).add_probe(ProbeOutcome.FAILED, at(672))

    assert says(once).condition is Condition.UNSURE
    assert says(twice) == HealthVerdict(
        condition=Condition.UNHEALTHY,
        because="answers /health, but no probe for one token",
        since=at(600),
    )
    assert says(twice.add_probe(ProbeOutcome.ANSWERED, at(740))).condition is Condition.HEALTHY
    assert says(watched(0, after=twice, begin=742, pulse=(101.0,))).condition is Condition.HEALTHY


def wants(
    record: HealthRecord, second: float, *, minutes: float = 10, request: float | None = None
) -> bool:
    last = None if request is None else at(request)
    every = timedelta(minutes=minutes)
    return record.wants_asking(every, ready_at=BEGAN, last_request=last, now=at(second))


def test_it_is_asked_only_when_nobody_has_asked_it_for_so_long() -> None:
    idle = watched(598)
    assert not wants(idle, 598)
    assert wants(idle, 600)
    assert not wants(idle, 600, request=300)
    assert wants(idle, 900, request=300)
    assert not wants(idle.add_probe(ProbeOutcome.ANSWERED, at(600)), 1100)

    served = watched(10, after=watched(580, pulse=lambda second: (second,)), begin=582)
    assert not wants(served, 600), "its tokens tell that it lives"
    assert not wants(watched(700, requests=1), 702), "its figures will tell"


def test_a_question_that_failed_is_repeated_after_a_minute() -> None:
    failed = watched(600).add_probe(ProbeOutcome.FAILED, at(600))

    assert not wants(watched(50, after=failed, begin=602), 655)
    assert wants(watched(60, after=failed, begin=602), 662)


def test_who_refuses_questions_is_not_asked_again() -> None:
    refused = watched(600).add_probe(ProbeOutcome.REFUSED, at(600))

    assert says(refused).condition is Condition.HEALTHY
    assert not wants(watched(3000, after=refused, begin=602), 3602)


def test_the_path_that_is_watched_costs_no_generation() -> None:
    def path(engine: str, **env: str) -> str:
        return ENGINES[engine].watched_path(
            Launch(engine=engine, image="a", checkpoint="a/b", env=env)
        )

    assert path("vllm") == path("sglang") == path("llamacpp") == "/health"
    assert path("sglang", SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION="0") == "/health"
    assert path("sglang", SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION="true") == "/v1/models"
