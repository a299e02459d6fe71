"""What the log of a process leaves out."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.test import Client
from kombu.message import Message

from inferdash.records import (
    IS_OVER,
    KEPT,
    NOT_TAKEN_OFF,
    REFUSED_HOST,
    REQUESTS,
    SAID_AGAIN,
    BoundedVisitors,
    WithoutRepeats,
)
from servers.host.docker.facts import translate

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


def test_an_outage_that_several_loops_meet_is_one_line(quiet: WithoutRepeats) -> None:
    said = []
    for at, (by, text) in enumerate(
        [
            ("servers.watcher.loop", "Docker's events: %s"),
            ("servers.watcher.loop", "Docker is not there yet: %s"),
            ("servers.watcher.images", "Images cannot be looked at: %s"),
        ]
    ):
        away = translate("Connection refused", doing="a list")
        made = logging.LogRecord(by, logging.WARNING, __file__, 1, text, (away,), None)
        made.created = float(at)
        if quiet.filter(made):
            said.append(made.getMessage())
    assert said == [
        "Docker Engine does not answer on this box. Start it, `sudo systemctl start docker`, or "
        "install it: the package docker.io or docker-ce."
    ]


def test_what_visitors_do_wrong_is_said_each_time(quiet: WithoutRepeats) -> None:
    assert quiet.filter(record("Forbidden: /profiles/new/", 0, by="django.request"))
    assert quiet.filter(record("Forbidden: /profiles/new/", 1, by="django.request"))


def test_what_is_new_each_time_does_not_fill_the_memory(quiet: WithoutRepeats) -> None:
    for number in range(KEPT + 1):
        assert quiet.filter(record(str(number), number / 100))
    assert quiet.filter(record("0", 10.0))  # forgotten
    assert not quiet.filter(record(str(KEPT), 10.0))


def visitor(
    at: float, by: str = "django.request", *, level: int = logging.WARNING, text: str = "100 %d"
) -> logging.LogRecord:
    made = logging.LogRecord(by, level, __file__, 1, "Not Found: %s", (text,), None)
    made.created = at
    return made


def refused_host(at: float) -> logging.LogRecord:
    return visitor(at, REFUSED_HOST, level=logging.ERROR)


def test_a_refused_host_is_one_line_a_minute() -> None:
    bounded = BoundedVisitors()
    said = [each for at in range(121) if bounded.filter(each := refused_host(at))]

    assert [each.created for each in said] == [0, 60, 120]
    assert said[1].getMessage() == "Not Found: 100 %d (59 more before it were left out)"


def test_a_stranger_writes_so_many_lines_a_minute_and_no_more() -> None:
    bounded = BoundedVisitors()
    for by in ("django.request", "uvicorn.error", "django.security.csrf"):
        lines = [visitor(number / 100, by) for number in range(1000)]
        assert len(list(filter(bounded.filter, lines))) == 30, by
        assert bounded.filter(visitor(61, by)), by


def test_faults_of_ours_are_told_among_any_number_of_visitors() -> None:
    bounded = BoundedVisitors()
    for number in range(100):
        bounded.filter(visitor(number / 100))
    assert bounded.filter(visitor(2, level=logging.ERROR))
    assert bounded.filter(visitor(2, "servers.watcher.loop"))


@pytest.mark.django_db
def test_requests_by_a_strange_name_write_one_line(caplog: pytest.LogCaptureFixture) -> None:
    client = Client()
    for _ in range(20):
        assert client.get("/login/", headers={"host": "evil.test"}).status_code == 400
    assert len(caplog.records) >= 20
    bounded = BoundedVisitors()
    assert len(list(filter(bounded.filter, caplog.records))) == 1


def test_each_process_bounds_what_visitors_make_it_write(settings: Any) -> None:
    assert "bounded_visitors" in settings.LOGGING["handlers"]["console"]["filters"]


def test_a_request_that_redis_did_not_take_off_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    def time_out(*_arguments: object, **_named: object) -> None:
        raise redis.TimeoutError("Timeout reading from socket")

    channel: Any = SimpleNamespace(basic_ack=time_out, no_ack_consumers=None)
    done = Message(delivery_tag="1", channel=channel)
    done.ack_log_error(logging.getLogger(REQUESTS), (redis.TimeoutError,))
    [said] = [each for each in caplog.records if each.name == REQUESTS]
    # As the filters that are set leave it.
    assert logging.Formatter("%(levelname)s %(message)s").format(said) == f"WARNING {NOT_TAKEN_OFF}"
