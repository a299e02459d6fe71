"""Figures out of logs: every example of the rules, and how figures are gathered over time."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from servers.judge.logs.metric_rules import load_meters
from servers.judge.logs.metrics import MOST, Meter, MetricRule
from tests.cases import table

EXAMPLES = [
    pytest.param(engine, example, id=f"{engine}-{rule['id']}-{number}")
    for engine, book in load_meters().items()
    for rule in book.rules
    for number, example in enumerate(rule["examples"])
]
START = datetime(2026, 11, 21, 8, tzinfo=UTC)


def rules(engine: str) -> list[MetricRule]:
    return [MetricRule.from_json(each) for each in load_meters()[engine].rules]


@table(("engine", "example"), EXAMPLES)
def test_an_example_gives_its_figures(engine: str, example: dict[str, Any]) -> None:
    line = example["line"]
    first = next(rule for rule in rules(engine) if rule.near in line)
    who, figures = first.read(line)

    assert figures == pytest.approx(example["gives"])
    assert who == example.get("who", "")


def block(lines: Sequence[tuple[float, str]]) -> str:
    return "\n".join(
        f"{(START + timedelta(seconds=at)).isoformat()} o {text}" for at, text in lines
    )


def vllm(generation: float, running: int = 1, engine: int = 0) -> str:
    return (
        f"INFO 11-01 10:00:10 [loggers.py:380] Engine {engine:03d}: Avg prompt throughput: 0.0 "
        f"tokens/s, Avg generation throughput: {generation} tokens/s, Running: {running} reqs, "
        "Waiting: 0 reqs, GPU KV cache usage: 50.0%, Prefix cache hit rate: 45.0%"
    )


def series(meter: Meter) -> dict[str, Any]:
    return {name: values for name, values in meter.series().items() if name != "t"}


def test_figures_stand_at_their_time_with_the_first_line_of_it() -> None:
    meter = Meter(rules("vllm"))
    meter.add(7, block([(0, "x"), (3, vllm(10.0)), (13, vllm(30.0, running=3))]))

    assert meter.series()["t"] == [START.timestamp(), START.timestamp() + 10]
    assert series(meter) == {
        "line": [8, 9], "generation": [10, 30], "prompt": [0, 0], "running": [1, 3],
        "queued": [0, 0], "kv": [50, 50],
    }  # fmt: skip


def test_parts_of_an_engine_add_up_also_where_they_write_by_turns() -> None:
    meter = Meter(rules("vllm"))
    meter.add(1, block([(1, vllm(10.0, engine=0)), (2, vllm(20.0, engine=1))]))
    meter.add(3, block([(11, vllm(40.0, engine=0))]))

    assert meter.series()["generation"] == [30, 60]
    assert meter.series()["kv"] == [50, 50]


def test_silence_is_a_gap() -> None:
    meter = Meter(rules("vllm"))
    meter.add(1, block([(0, vllm(10.0)), (30, vllm(10.0)), (200, vllm(20.0))]))

    assert meter.series()["generation"] == [10, 10, None, 20]


def test_a_long_log_gets_wider_buckets_and_never_more_of_them() -> None:
    meter = Meter(rules("vllm"))
    meter.add(1, block([(n * 10, vllm(float(n % 2))) for n in range(3 * MOST)]))

    values = meter.series()["generation"]
    assert MOST / 2 <= len(values) <= MOST
    assert set(values) == {0.5}


def test_what_a_child_gathered_is_merged_as_if_it_had_been_read_here() -> None:
    lines = [(n * 7, vllm(float(n), engine=n % 2)) for n in range(900)]
    whole, pieces = Meter(rules("vllm")), Meter()
    whole.add(1, block(lines))
    for first in range(0, 900, 300):
        child = Meter(rules("vllm"))
        child.add(first + 1, block(lines[first : first + 300]))
        pieces.merge(json.loads(json.dumps(child.to_json())))

    assert pieces.series() == whole.series()


def test_other_lines_say_nothing() -> None:
    meter = Meter(rules("sglang"))
    meter.add(1, block([(0, "Decode batch"), (1, "nothing")]))

    assert meter.series() == {"t": [], "line": []}
