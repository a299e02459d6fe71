"""Figures of requests with known stamps: by the definitions, and where naive ones go wrong."""

from dataclasses import replace

import pytest

from servers.host.benchmarks.timings import RequestTiming
from servers.judge.benchmarks.points import PointConditions, list_taints, summarise
from servers.judge.benchmarks.timings import find_contradictions, find_window
from tests.cases import table


def request(
    sent: float = 0.0, *, first: float = 0.5, each: float = 0.1, tokens: int = 11
) -> RequestTiming:
    """That began at `sent`, waited `first` and then sent a token every `each` seconds."""
    stamps = tuple(sent + first + each * number for number in range(tokens))
    return RequestTiming(
        planned=sent, sent=sent, stamps=stamps, first_visible=stamps[0],
        prompt_tokens=100, output_tokens=tokens,
    )  # fmt: skip


def test_a_request_has_the_figures_of_its_stamps() -> None:
    one = request()
    assert one.ttft == pytest.approx(0.5)
    assert one.tpot == pytest.approx(0.1), "without the first token's wait"
    assert one.e2el == pytest.approx(1.5)
    assert one.e2el == pytest.approx((one.ttft or 0) + (one.tpot or 0) * 10)


def test_several_tokens_in_an_event_are_counted_by_the_server() -> None:
    drafts = replace(request(), output_tokens=31)
    assert drafts.tpot == pytest.approx(1.0 / 30), "no chunk is a token"
    assert drafts.count_tokens(0.45, 1.05) == pytest.approx(6 * 31 / 11)


def test_a_wait_before_it_is_sent_belongs_to_the_latency() -> None:
    late = replace(request(2.0), planned=0.0)
    assert late.ttft == pytest.approx(2.5)


def test_reasoning_is_text_but_nothing_that_is_seen() -> None:
    thinks = replace(request(), first_visible=1.1)
    assert [thinks.ttft, thinks.ttfo] == pytest.approx([0.5, 1.1])
    assert replace(request(), first_visible=None).ttfo is None


@table(
    ("change", "name"),
    [
        ({"stamps": (1.0, 0.9)}, "time-order"),
        ({"sent": -1.0}, "sent-before-planned"),
        ({"output_tokens": 4}, "more-events-than-tokens"),
        ({"cached_tokens": 101}, "more-cached-than-prompt"),
        ({}, None),
        ({"cached_tokens": 100}, None),
        ({"output_tokens": 300}, None),
    ],
)
def test_figures_that_cannot_be_are_named(change: dict[str, object], name: str | None) -> None:
    assert find_contradictions(replace(request(), **change)) == ([name] if name else [])  # type: ignore[arg-type]


def test_ramp_and_drain_lie_outside_the_steady_window() -> None:
    # Two at once, each 1.5 s: begun at 0 and 0.2, then at 1.5 and 1.7, then at 3.0 and 3.2.
    sent = [0.0, 0.2, 1.5, 1.7, 3.0, 3.2]
    found = [request(at) for at in sent]
    assert find_window(found, 2) == pytest.approx((0.2, 4.5))
    assert find_window(found[:3], 2) is None
    point = summarise(found, concurrency=2)
    assert point.is_steady
    assert point.output_rate == pytest.approx(2 * 11 / 1.5, rel=0.1)
    assert point.user_rate == pytest.approx(10)


def test_a_point_tells_what_it_has_enough_requests_for() -> None:
    few = summarise([request(number * 2.0) for number in range(8)], concurrency=1)
    assert few.ttft is not None
    assert few.ttft.median == pytest.approx(0.5)
    assert (few.ttft.p90, few.ttft.p99) == (None, None)
    many = summarise([request(number * 2.0) for number in range(300)], concurrency=1)
    assert many.ttft is not None
    assert many.ttft.p99 is not None


def test_prompt_speed_counts_neither_the_cache_nor_the_network() -> None:
    sent = [request(number * 2.0) for number in range(4)]
    long = [replace(each, prompt_tokens=2000, cached_tokens=400) for each in sent]
    assert summarise(long, concurrency=1, base=0.2).prefill_rate == pytest.approx(1600 / 0.3)
    assert summarise(long, concurrency=2).prefill_rate is None, "not with several at once"
    cached = [replace(each, cached_tokens=40) for each in sent]
    assert summarise(cached, concurrency=1, base=0.2).prefill_rate is None, "too short to tell"
    assert summarise(cached, concurrency=1).cached_share == pytest.approx(0.4)
    unknown = [request(number * 2.0) for number in range(4)]
    assert summarise(unknown, concurrency=1).cached_share is None, "unknown is not zero"


CLEAN = [request(number * 2.0) for number in range(8)]
FAILED = RequestTiming(planned=0.0, sent=0.0, error="HTTP 500")


@table(
    ("requests", "conditions", "codes"),
    [
        (CLEAN, {}, []),
        (CLEAN, {"lag": 0.004, "requests_of_others": 0, "throttled_share": 0.05}, []),
        ([*CLEAN, FAILED], {}, ["benchmarks.failed-requests"]),
        (CLEAN[:2], {}, ["benchmarks.few-requests"]),
        (CLEAN, {"lag": 0.02}, ["benchmarks.client-lag"]),
        (CLEAN, {"requests_of_others": 1}, ["benchmarks.others"]),
        (CLEAN, {"other_engines": 1}, ["benchmarks.other-engine"]),
        (CLEAN, {"throttled_share": 0.2}, ["benchmarks.throttled"]),
        (CLEAN, {"preemptions": 3}, ["benchmarks.preemptions"]),
        (CLEAN, {"swapped": 4096}, ["benchmarks.swap"]),
        (
            [replace(CLEAN[0], cached_tokens=101), *CLEAN[1:]],
            {},
            ["benchmarks.identity-more-cached-than-prompt"],
        ),
    ],
)
def test_a_point_that_is_not_clean_says_why(
    requests: list[RequestTiming], conditions: dict[str, float], codes: list[str]
) -> None:
    figures = summarise(requests, concurrency=1)
    assert list_taints(figures, PointConditions(**conditions)) == codes  # type: ignore[arg-type]
