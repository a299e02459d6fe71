"""Each rule on one launch that it is for and on one that it must leave alone."""

from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from servers.judge.profiles.facts import SEVERITIES, LintFinding, Subject
from servers.judge.profiles.lint import lint, rules
from tests.cases import table
from tests.profiles.lint.subjects import subject


@cache
def written() -> list[dict[str, Any]]:
    return [
        case
        for path in sorted(Path(__file__).with_name("cases").glob("*.yaml"))
        for case in yaml.safe_load(path.read_text())
    ]


each_case = table("case", written, ids=lambda case: case["rule"])


def fires(case: dict[str, Any]) -> Subject:
    return subject(case["fires"])


def silent(case: dict[str, Any]) -> Subject:
    """What differs is said; None takes something away."""
    both = {**case["fires"], **case["silent"]}
    return subject({key: value for key, value in both.items() if value is not None})


def of(rule: str, found: list[LintFinding]) -> list[LintFinding]:
    return [finding for finding in found if finding.rule == rule]


def test_every_rule_has_a_case() -> None:
    assert {case["rule"] for case in written()} == set(rules())


@each_case
def test_rule_speaks_where_it_must(case: dict[str, Any]) -> None:
    found = of(case["rule"], lint(fires(case)))

    assert found
    assert found[0].severity == case.get("severity", rules()[case["rule"]].severity)
    assert found[0].says.endswith((".", "?"))
    assert "{" not in found[0].says.replace("{}", "")
    if "about" in case:
        assert found[0].about == case["about"]


@each_case
def test_rule_is_silent_where_it_must_be(case: dict[str, Any]) -> None:
    assert of(case["rule"], lint(silent(case))) == []


@each_case
def test_a_fix_makes_its_finding_go_away(case: dict[str, Any]) -> None:
    """And brings no error that was not there."""
    before = fires(case)
    found = lint(before)
    fixable = [each for each in of(case["rule"], found) if each.fix is not None]
    if not fixable:
        assert not case.get("fix", False)
        return
    fix = fixable[0].fix
    assert fix is not None

    after = lint(replace(before, launch=fix.apply(before.launch)))

    assert fixable[0].says not in [each.says for each in of(case["rule"], after)]
    errors = {each.rule for each in found if each.severity == "error"}
    assert {each.rule for each in after if each.severity == "error"} <= errors


@each_case
def test_findings_come_worst_first(case: dict[str, Any]) -> None:
    order = [SEVERITIES.index(each.severity) for each in lint(fires(case))]

    assert order == sorted(order)


def test_launches_here_have_findings_of_every_severity_to_be_put_in_order() -> None:
    found = [{each.severity for each in lint(fires(case))} for case in written()]

    assert set(SEVERITIES) in found


any_case = st.deferred(lambda: st.sampled_from(written()))


@given(any_case, any_case)
def test_findings_of_flags_of_two_rules_come_worst_first(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    flags = [str(case["fires"].get("flags", "")) for case in (one, other)]

    found = lint(subject({**one["fires"], "flags": " ".join(flags)}))

    order = [SEVERITIES.index(each.severity) for each in found]
    assert order == sorted(order)


@table("rule", lambda: rules().values(), ids=lambda rule: rule.id)
def test_nothing_is_an_error_while_what_decides_is_not_known(rule: Any) -> None:
    """Without GPUs and version, rules that ask for them stay below an error."""
    case = next(each for each in written() if each["rule"] == rule.id)
    kinds: frozenset[str] = getattr(rule, "kinds", frozenset())
    if not kinds & {"version", "sm", "sm_other_than", "gpu", "driver", "others"}:
        return
    blind = replace(
        fires(case), gpus=None, engine_version="", driver="", others=None, flaglist=None
    )
    blind = replace(blind, launch=replace(blind.launch, image="example.test/fork:latest"))

    assert all(each.severity != "error" and each.unknown for each in of(rule.id, lint(blind)))


@table(
    ("engine", "box"),
    product(["vllm", "sglang", "llamacpp"], [None, "1x9.0", "1x12.0", "1x12.1"]),
)
def test_a_plain_launch_has_nothing_worse_than_advice(engine: str, box: str | None) -> None:
    flags = {
        "vllm": "--max-model-len 8192 --gpu-memory-utilization 0.8",
        "sglang": "--context-length 8192 --mem-fraction-static 0.7",
        "llamacpp": "--ctx-size 8192",
    }
    plain = subject({"engine": engine, "flags": flags[engine]} | ({"box": box} if box else {}))

    assert [each for each in lint(plain) if each.severity != "info"] == []
