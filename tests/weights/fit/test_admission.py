"""The engines' own conditions for a start, with the numbers of their messages."""

from dataclasses import replace
from datetime import date

import pytest

from servers.judge.profiles.admission import NOW, LastGoodRun, weigh
from servers.judge.profiles.facts import LintFinding, Subject
from servers.judge.profiles.lint import lint
from servers.judge.weights.fit.estimate import estimate
from tests.weights.fit.models import GIB, subject


def refusals(asked: Subject) -> list[LintFinding]:
    return [each for each in lint(asked) if each.rule in NOW]


def test_vllm_refuses_a_gpu_with_less_free_than_its_share() -> None:
    # A guide's: "Free memory on device cuda:0 (2.21/94.97 GiB) … (0.93, 88.32 GiB)"
    asked = subject(
        "vllm", "--gpu-memory-utilization", "0.93", free=(2.21,),
        card=("RTX PRO 6000", "12.0", int(94.97 * GIB)),
    )  # fmt: skip
    [found] = refusals(asked)

    assert found.severity == "error"
    assert "has 2.21 of 94.97 GiB free" in found.says
    assert "0.93 of it, 88.32 GiB" in found.says
    assert "Free memory on device (2.21/94.97 GiB) on startup is less than desired" in found.says
    assert found.fix is None  # nothing can be had of so little


def test_a_lower_utilization_is_one_click_away_and_is_enough() -> None:
    asked = subject("vllm", "--tensor-parallel-size", "2", count=2, free=(94.0, 59.3))
    [found] = refusals(asked)

    assert found.fix is not None
    assert dict(found.fix.set_flags) == {"--gpu-memory-utilization": "0.61"}
    assert refusals(replace(asked, launch=found.fix.apply(asked.launch))) == []


def test_the_real_case_of_a_spark_is_foreseen() -> None:
    # 66.47 of 121.69 GiB at 0.85, beside what a driver's pool had kept.
    asked = subject(
        "vllm", "--gpu-memory-utilization", "0.85", kind="unified", free=(66.47,),
        card=("NVIDIA GB10", "12.1", int(121.69 * GIB)),
    )  # fmt: skip
    [found] = refusals(asked)

    assert "The memory that GPU and machine share has 66.47 of 121.69 GiB free" in found.says
    assert "103.44 GiB" in found.says
    said = estimate(asked)
    assert said is not None
    assert said.verdict == "no"
    assert said.says.startswith("Would be refused: The memory")


@pytest.mark.parametrize("free", [(94.9,), (None,), (87.4,)])
def test_vllm_is_not_refused_without_a_reason(free: tuple[float | None, ...]) -> None:
    assert refusals(subject("vllm", free=free)) == []


def test_another_gpu_of_the_box_may_be_full() -> None:
    assert refusals(subject("vllm", count=2, free=(94.0, 1.0), gpus="0")) == []


def test_sglang_refuses_unequal_gpus_and_offers_equal_ones() -> None:
    # Reported with 16.28 and 46.81 GiB; here two more that are alike.
    asked = subject("sglang", "--tp", "2", count=4, free=(16.28, 46.81, 90.0, 90.0), gpus="0,1")
    [found] = refusals(asked)

    assert found.severity == "error"
    assert "GPU 0 has 16.28 GiB free and GPU 1 has 46.81" in found.says
    assert "90% of that on each, 42.13 GiB" in found.says
    assert "The memory capacity is unbalanced" in found.says
    assert found.fix is not None
    assert found.fix.fields == {"gpus": "2,3"}
    assert refusals(replace(asked, launch=found.fix.apply(asked.launch))) == []


def test_sglang_does_not_compare_what_it_does_not_divide() -> None:
    assert refusals(subject("sglang", count=2, free=(10.0, 90.0))) == []
    assert refusals(subject("sglang", "--tp", "2", count=2, free=(85.0, 90.0))) == []


def test_sglangs_check_may_be_switched_off() -> None:
    off = {"SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK": "0"}
    [found] = refusals(subject("sglang", "--tp", "2", count=2, free=(10.0, 90.0), env=off))

    assert found.severity == "warning"


def test_that_it_worked_yesterday_frees_no_memory_today() -> None:
    asked = subject("vllm", free=(40.0,))
    worked = LastGoodRun(launch=asked.launch, version=1, day=date(2026, 11, 20))

    [found] = weigh(refusals(asked), asked.launch, worked)

    assert found.severity == "error"
