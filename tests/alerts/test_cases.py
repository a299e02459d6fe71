"""What a person is told of runs and boxes, in which words."""

from dataclasses import replace
from typing import Any

import pytest

from servers.judge.alerts import boxes, runs
from servers.judge.alerts.case import AlertCase
from servers.judge.alerts.runs import RunFacts

GIB = 2**30
NOW = 1_000_000.0

FAILED = RunFacts(
    pk=7,
    server="glm-5",
    box="rtx8",
    state="failed",
    asked_at=NOW - 700,
    ended_at=NOW - 10,
    why="GPU memory ran out: 2.00 GiB more were wanted.",
    remedy="Lower --gpu-memory-utilization",
    memory="Released 61.2 GiB in 9 s.",
)
DIED = replace(FAILED, ready_at=NOW - 3 * 3600 - 10, why="The engine was ended by SIGSEGV.")
READY = replace(FAILED, state="ready", ended_at=None, ready_at=NOW - 5, why="", memory="")


def told(run: RunFacts, *, now: float = NOW, **values: Any) -> list[AlertCase]:
    return list(runs.cases(run, now=now, **values))


def test_a_failed_start_names_model_and_box_its_cause_its_memory_and_what_to_do() -> None:
    [case] = told(FAILED)

    assert (case.kind, case.subject, case.severity) == ("failed", "glm-5", "critical")
    assert case.title == "glm-5 on rtx8 failed to start"
    assert case.detail == "GPU memory ran out: 2.00 GiB more were wanted."
    assert case.memory == "Released 61.2 GiB in 9 s."
    assert case.advice == "Lower --gpu-memory-utilization."
    assert (case.run, case.began) == (7, NOW - 10)


def test_one_that_served_has_died_and_it_is_said_after_how_long() -> None:
    [case] = told(DIED)

    assert (case.kind, case.title) == ("died", "glm-5 on rtx8 died after 3 h")


def test_what_a_person_stopped_is_not_told() -> None:
    assert told(replace(DIED, was_stopped=True)) == []
    assert told(replace(DIED, state="stopped")) == []


def test_the_cause_is_waited_for_and_so_is_the_memory_but_not_for_ever() -> None:
    unexplained = replace(FAILED, is_explained=False)
    unsettled = replace(FAILED, is_memory_settled=False)

    assert told(unexplained) == told(unsettled) == []
    assert [case.kind for case in told(unexplained, now=NOW + 150)] == ["failed"]
    assert [case.kind for case in told(unsettled, now=NOW + 150)] == ["failed"]


def test_while_inferdash_starts_it_again_it_is_not_over() -> None:
    again = replace(FAILED, state="starting", ended_at=None, is_automatic=True, why="", memory="")
    known = frozenset({"died"})

    assert [case.kind for case in told(again, open_kinds=known)] == ["died"]
    failed_again = replace(FAILED, is_automatic=True)
    assert [case.kind for case in told(failed_again, open_kinds=known)] == ["died"]
    soon = replace(failed_again, is_explained=False)
    assert [case.kind for case in told(soon, open_kinds=known)] == ["died"]
    assert told(replace(again, state="ready"), open_kinds=known) == []
    # A person has started it: somebody knows.
    assert told(replace(again, is_automatic=False), open_kinds=known) == []


def test_a_planned_restart_is_said_instead_of_advice() -> None:
    [case] = told(replace(FAILED, restart_at=NOW + 60))

    assert case.advice == "inferdash starts it again by itself."


@pytest.mark.parametrize(
    ("values", "title", "detail"),
    [
        (
            {"unhealthy_because": "answers /health, but has generated nothing"},
            "glm-5 on rtx8 is unhealthy",
            "It answers /health, but has generated nothing.",
        ),
        (
            {"stuck": "looks like a deadlock while it serves"},
            "glm-5 on rtx8 is stuck",
            "It looks like a deadlock while it serves.",
        ),
    ],
)
def test_a_ready_engine_that_is_ill_says_what_it_holds(
    values: dict[str, Any], title: str, detail: str
) -> None:
    [case] = told(replace(READY, held=int(61.2 * GIB), remedy="", **values))

    assert (case.kind, case.title, case.detail) == ("unhealthy", title, detail)
    assert case.memory == "It holds 61.2 GiB of GPU memory."


def test_ready_is_told_after_more_than_five_minutes_and_only_while_it_is_news() -> None:
    slow = replace(READY, asked_at=READY.ready_at - 18 * 60 if READY.ready_at else 0)
    case = runs.event(slow, now=NOW)

    assert case is not None
    assert case.title == "glm-5 on rtx8 is ready after 18 min"
    assert (case.severity, case.is_event, case.subject) == ("info", True, "run 7")
    assert runs.event(slow, now=NOW + 3600) is None
    assert runs.event(replace(slow, asked_at=NOW - 300), now=NOW) is None
    assert runs.event(replace(slow, state="stopped"), now=NOW) is None


def test_a_load_that_leaves_little_memory_is_told_while_it_loads() -> None:
    loading = replace(
        READY, state="starting", ready_at=None, memory_warning="The machine has 5 GiB left."
    )

    assert [(case.kind, case.detail) for case in told(loading)] == [
        ("floor", "The machine has 5 GiB left.")
    ]
    assert told(replace(loading, memory_warning="")) == []


CARD = {"uuid": "GPU-1", "index": 2, "kind": "discrete"}
LEAKED = {
    "gpu": "GPU-1",
    "verdict": "leaked",
    "alarm": True,
    "unattributed": int(33.1 * GIB),
    "reason": "33.1 GiB are held by nobody.",
    "advice": "Restart the box.",
}
FINDING = {
    "rule": "thermal",
    "subject": "GPU-1",
    "severity": "warning",
    "title": "GPU 2 is too hot",
    "because": "It has been at 92 °C for 3 min.",
    "advice": "Look at its fans.",
    "since": NOW - 180,
}


def sample(**values: Any) -> dict[str, Any]:
    known = {"gpus": [CARD], "meminfo": {"MemAvailable": 100 * GIB}, "verdicts": [], "findings": []}
    return known | values


def test_a_verdict_of_leaked_names_the_card_and_the_box_and_says_how_much() -> None:
    [case] = boxes.of_sample("rtx8", sample(verdicts=[LEAKED])).cases

    assert (case.kind, case.subject, case.severity) == ("leaked", "GPU-1", "critical")
    assert case.title == "GPU 2 on rtx8 has lost memory"
    assert case.memory == "33.1 GiB were not released."
    assert case.advice == "Restart the box."


def test_a_verdict_that_is_no_alarm_is_none() -> None:
    quiet = [{**LEAKED, "verdict": "settling", "alarm": False}]

    found = boxes.of_sample("rtx8", sample(verdicts=quiet))

    assert found.cases == ()
    assert ("leaked", "GPU-1") in found.unsure, "while it settles, nobody can say that it is over"


def test_a_finding_of_hardware_is_told_from_warning_on() -> None:
    findings = [FINDING, {**FINDING, "rule": "persistence", "severity": "info"}]
    findings += [{**FINDING, "rule": "xid", "severity": "critical"}]
    found = boxes.of_sample("rtx8", sample(findings=findings)).cases

    assert [(each.kind, each.subject, each.severity) for each in found] == [
        ("thermal", "thermal:GPU-1", "warning"),
        ("hardware", "xid:GPU-1", "critical"),
    ]
    assert found[0].title == "rtx8: GPU 2 is too hot"
    assert found[0].began == NOW - 180


def test_what_a_sample_does_not_say_is_not_over() -> None:
    silent = {"gpus": [CARD], "meminfo": {}}

    assert boxes.of_sample("rtx8", silent).unknown_kinds == {
        *("thermal", "disk", "hardware", "leaked", "residual", "floor"),
    }
    assert boxes.of_sample("rtx8", None).unknown_kinds >= {"floor", "leaked", "thermal"}
    assert boxes.of_sample("rtx8", sample()).unknown_kinds == frozenset()


@pytest.mark.parametrize(
    ("kind", "left", "is_low", "is_told"),
    [
        ("discrete", 1.9, False, True),
        ("discrete", 2.1, False, False),
        ("discrete", 2.1, True, True),
        ("discrete", 2.5, True, False),
        ("unified", 5.9, False, True),
        ("unified", 7.3, True, False),
    ],
)
def test_little_memory_takes_more_to_be_enough_again(
    kind: str, left: float, is_low: bool, is_told: bool
) -> None:
    told = sample(gpus=[{**CARD, "kind": kind}], meminfo={"MemAvailable": int(left * GIB)})

    cases = boxes.of_sample("spark-1", told, is_low=is_low).cases

    assert [case.kind for case in cases] == (["floor"] if is_told else [])


def test_a_box_is_silent_after_two_minutes() -> None:
    assert boxes.silence("spark-1", seen_at=NOW - 119, now=NOW) is None
    case = boxes.silence("spark-1", seen_at=NOW - 121, now=NOW, servers=2)

    assert case is not None
    assert (case.kind, case.title, case.began) == ("silent", "spark-1 is away", NOW - 121)
    assert "2 servers were running there." in case.detail
