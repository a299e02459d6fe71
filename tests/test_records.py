"""What the log of a process leaves out."""

import logging

import pytest

from inferdash.records import IS_OVER, KEPT, SAID_AGAIN, WithoutRepeats

ROUND = 8.0  # seconds


def record(
    text: str, at: float, *, level: int = logging.WARNING, by: str = "servers.watcher.loop"
) -> logging.LogRecord:
    made = logging.LogRecord(by, level, __file__, 1, "Docker is away: %s", (text,), None)
    made.created = at
    return made


@pytest.fixture
def quiet() -> WithoutRepeats:
    return WithoutRepeats()


def test_a_warning_of_each_round_is_said_again_after_ten_minutes(quiet: WithoutRepeats) -> None:
    said = []
    for number in range(int(SAID_AGAIN / ROUND) + 2):
        each = record("no socket", number * ROUND)
        if quiet.filter(each):
            said.append(each.getMessage())
    assert said == [
        "Docker is away: no socket",
        "Docker is away: no socket (still, said 74 times since)",
    ]


def test_a_second_outage_is_news(quiet: WithoutRepeats) -> None:
    assert quiet.filter(record("no socket", 0))
    assert not quiet.filter(record("no socket", ROUND))
    again = record("no socket", ROUND + IS_OVER + 1)
    assert quiet.filter(again)
    assert again.getMessage() == "Docker is away: no socket"


def test_another_reason_and_an_error_are_always_said(quiet: WithoutRepeats) -> None:
    assert quiet.filter(record("no socket", 0))
    assert quiet.filter(record("no answer", 1))
    assert quiet.filter(record("broken", 2, level=logging.ERROR))
    assert quiet.filter(record("broken", 3, level=logging.ERROR))


def test_what_visitors_do_wrong_is_said_each_time(quiet: WithoutRepeats) -> None:
    assert quiet.filter(record("Forbidden: /profiles/new/", 0, by="django.request"))
    assert quiet.filter(record("Forbidden: /profiles/new/", 1, by="django.request"))


def test_what_is_new_each_time_does_not_fill_the_memory(quiet: WithoutRepeats) -> None:
    for number in range(KEPT + 1):
        assert quiet.filter(record(str(number), number / 100))
    assert quiet.filter(record("0", 10.0))  # forgotten
    assert not quiet.filter(record(str(KEPT), 10.0))
