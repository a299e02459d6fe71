"""The load generator against an engine whose answers are known."""

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from servers.host.benchmarks.generator import (
    LoadLimitError,
    LoadState,
    PointPlan,
    PointTimings,
    RequestBudget,
    measure,
)
from servers.host.benchmarks.orders import LoadLimits
from servers.host.benchmarks.process import GeneratorError, LoadGenerator
from servers.host.benchmarks.requests import BenchmarkTarget
from servers.host.benchmarks.timings import RequestTiming
from tests.cases import Cases
from tests.scripted_engine import MODEL, EngineScript, ScriptedEngine

LIMITS = LoadLimits(seconds=3600, requests=1000)
ROLE = {"role": "assistant", "content": ""}
WORDS = [{"content": f"word{number} "} for number in range(5)]


def target(engine: ScriptedEngine) -> BenchmarkTarget:
    url = f"http://{engine.host}:{engine.port}/v1/chat/completions"
    return BenchmarkTarget(url=url, model=MODEL, headers={"authorization": "Bearer one"})


def plan(**values: Any) -> PointPlan:
    usual = {
        "concurrency": 1,
        "requests": 4,
        "seconds": 60.0,
        "output_tokens": 5,
        "prompts": ("Hello",),
    }
    return PointPlan(**{**usual, **values})


def run(engine: ScriptedEngine, wanted: PointPlan) -> tuple[PointTimings, list[RequestTiming]]:
    told: list[RequestTiming] = []
    state = LoadState(budget=RequestBudget(LIMITS.requests))
    return asyncio.run(measure(target(engine), wanted, told.append, state)), told


def answering(script: Callable[[dict[str, Any]], EngineScript]) -> ScriptedEngine:
    return ScriptedEngine(plan=script)


def test_each_event_with_text_is_stamped_and_counts_are_the_servers() -> None:
    asked: list[dict[str, Any]] = []

    def script(body: dict[str, Any]) -> EngineScript:
        asked.append(body)
        return EngineScript(
            deltas=[ROLE, {"reasoning_content": "hm"}, *WORDS],
            used={
                "prompt_tokens": 40,
                "completion_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 16},
            },
        )

    with answering(script) as engine:
        measured, told = run(engine, plan(requests=2))

    assert told == list(measured.requests)
    for timing in told:
        assert timing.error == ""
        assert len(timing.stamps) == 6, "a role alone is no text"
        assert timing.first_visible == timing.stamps[1], "reasoning is not seen"
        assert (timing.prompt_tokens, timing.output_tokens, timing.cached_tokens) == (40, 9, 16)
        assert timing.planned == timing.sent < timing.stamps[0]
    assert asked[0]["ignore_eos"] is True
    assert asked[0]["max_tokens"] == asked[0]["min_tokens"] == 5
    assert asked[0]["temperature"] == 0


def test_as_many_are_in_flight_as_were_wanted_and_no_more() -> None:
    seen: list[int] = []
    with ScriptedEngine() as engine:

        def script(_body: dict[str, Any]) -> EngineScript:
            seen.append(engine.running)
            return EngineScript(deltas=WORDS, delay=0.005)

        engine.plan = script
        measured, _told = run(engine, plan(concurrency=4, requests=16))
    assert len(measured.requests) == 16
    assert max(seen) <= 4


def test_warm_ups_are_not_measured_and_fill_no_cache_with_what_is() -> None:
    asked: list[str] = []

    def script(body: dict[str, Any]) -> EngineScript:
        asked.append(body["messages"][0]["content"])
        return EngineScript(deltas=WORDS)

    with answering(script) as engine:
        measured, told = run(engine, plan(prompts=("one", "two"), warmups=3, requests=3))

    assert len(measured.requests) == len(told) == 3
    warm, measured_prompts = asked[:3], asked[3:]
    assert measured_prompts == ["one", "two", "one"]
    assert not any(each.startswith(prompt) for each in warm for prompt in ("one", "two"))


def test_arrivals_are_the_same_for_a_seed_and_latency_counts_from_them() -> None:
    def gaps(seed: int) -> list[float]:
        with answering(lambda _body: EngineScript(deltas=WORDS)) as engine:
            measured, _told = run(engine, plan(requests=6, rate=200.0, seed=seed))
        planned = sorted(each.planned for each in measured.requests)
        assert all(each.sent >= each.planned for each in measured.requests)
        return [round(later - planned[0], 6) for later in planned]

    assert gaps(1) == pytest.approx(gaps(1), abs=1e-5)
    assert gaps(1) != pytest.approx(gaps(2), abs=1e-5)


def test_requests_that_fail_say_why_and_stop_nothing() -> None:
    answers = iter(
        [
            EngineScript(deltas=[], status=500, error={"error": {"message": "out of memory"}}),
            EngineScript(deltas=WORDS[:2], then="drop"),
            EngineScript(deltas=[]),
            EngineScript(deltas=WORDS, usage=False),
        ]
    )
    with answering(lambda _body: next(answers)) as engine:
        measured, _told = run(engine, plan())
    refused, dropped, empty, whole = measured.requests
    assert "out of memory" in refused.error
    assert dropped.error
    assert empty.error == "The answer has no text."
    assert whole.is_whole
    assert whole.output_tokens is None, "the server told none"


EVENTS = (
    {"choices": [{"delta": {"content": "word "}}]},
    {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 1}},
)


def test_a_connection_that_an_engine_says_to_keep_and_closes_fails_no_request() -> None:
    """llama.cpp closes it after each stream: what was sent meanwhile it has not read."""
    seen = {"answered": 0, "dropped": 0}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        lines = "".join(f"data: {json.dumps(each)}\n\n" for each in EVENTS).encode()
        head = b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=5, max=100\r\ntransfer-encoding: chunked"
        writer.write(b"%b\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (head, len(lines), lines))
        seen["answered"] += 1
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"POST /")  # behind the body of the first
            seen["dropped"] += 1
        writer.close()

    async def measure_it() -> PointTimings:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            url = f"http://127.0.0.1:{port}/v1/chat/completions"
            state = LoadState(budget=RequestBudget(100))
            wanted = plan(concurrency=1, requests=4, output_tokens=1)
            return await measure(
                BenchmarkTarget(url=url, model=MODEL, headers={}), wanted, lambda _each: None, state
            )

    found = asyncio.run(measure_it())

    assert [each.error for each in found.requests] == [""] * 4
    assert seen == {"answered": 4, "dropped": 1}, "after the first it keeps none"


def test_the_program_of_its_own_measures_the_same() -> None:
    told: list[RequestTiming] = []
    with (
        answering(lambda _body: EngineScript(deltas=WORDS)) as engine,
        LoadGenerator(target(engine), LIMITS) as generator,
    ):
        first = generator.measure(plan(concurrency=2, requests=3), told.append)
        second = generator.measure(plan(requests=1, prompts=("b",)), told.append)
        assert engine.headers[0]["authorization"] == "Bearer one"
    assert [len(first.requests), len(second.requests)] == [3, 1]
    assert told == [*first.requests, *second.requests]
    assert all(each.is_whole for each in told)


def test_a_program_that_is_stopped_asks_no_more() -> None:
    slow = EngineScript(deltas=WORDS, delay=30)
    with (
        answering(lambda _body: slow) as engine,
        LoadGenerator(target(engine), LIMITS) as generator,
    ):

        def stop() -> None:
            engine.arrived.get(timeout=60)
            generator.stop()

        threading.Thread(target=stop).start()
        with pytest.raises(GeneratorError):
            generator.measure(plan(), lambda _timing: None)
        assert engine.outcomes.get(timeout=60) == "cancelled"


def test_it_keeps_its_limits_by_itself() -> None:
    slow = EngineScript(deltas=WORDS, delay=30)
    with Cases() as cases:
        with cases.named("requests"), answering(lambda _body: EngineScript(deltas=WORDS)) as engine:
            most = LoadLimits(seconds=3600, requests=5)
            with LoadGenerator(target(engine), most) as generator:
                generator.measure(plan(requests=2, warmups=2), lambda _timing: None)
                with pytest.raises(LoadLimitError):
                    generator.measure(plan(concurrency=4, requests=8), lambda _timing: None)
            assert len(engine.requests) == 5
        with cases.named("time"), answering(lambda _body: slow) as engine:
            short = LoadLimits(seconds=2, requests=100)
            with LoadGenerator(target(engine), short) as generator:
                with pytest.raises(LoadLimitError):
                    generator.measure(plan(), lambda _timing: None)
                with pytest.raises(LoadLimitError):
                    generator.measure(plan(), lambda _timing: None)


def test_a_conversation_goes_on_with_its_own_answers() -> None:
    asked: list[list[str]] = []

    def script(body: dict[str, Any]) -> EngineScript:
        asked.append([each["content"] for each in body["messages"]])
        return EngineScript(deltas=[{"content": f"answer {len(asked)}"}])

    with answering(script) as engine, LoadGenerator(target(engine), LIMITS) as generator:
        for talk, prompt in [("begins", "one"), ("goes on", "two"), ("begins", "three")]:
            turn = plan(requests=2, prompts=(f"a {prompt}", f"b {prompt}"), talk=talk)
            generator.measure(turn, lambda _timing: None)

    assert asked == [
        ["a one"],
        ["b one"],
        ["a one", "answer 1", "a two"],
        ["b one", "answer 2", "b two"],
        ["a three"],
        ["b three"],
    ]


def test_requests_of_a_replay_arrive_as_they_once_did_however_slow_the_answers() -> None:
    asked: list[int] = []

    def script(body: dict[str, Any]) -> EngineScript:
        asked.append(body["max_tokens"])
        return EngineScript(deltas=WORDS, first_delay=0.3)

    with answering(script) as engine, LoadGenerator(target(engine), LIMITS) as generator:
        wanted = plan(
            prompts=("a", "b", "c"), outputs=(3, 4, 5), arrivals=(0.0, 0.01, 0.02), requests=3
        )
        found = generator.measure(wanted, lambda _timing: None).requests

    planned = sorted(each.planned for each in found)
    assert [round(each - planned[0], 6) for each in planned] == [0.0, 0.01, 0.02]
    assert sorted(asked) == [3, 4, 5]
    assert generator.most_in_flight == 3, "none waits for the one before"
