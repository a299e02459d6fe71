"""Conditions in three values, and what is refused when rules are read."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from servers.judge.profiles.conditions import ConditionError, compile_condition
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.lint_rules import LintRuleError, load
from tests.cases import table
from tests.profiles.lint.subjects import subject

YES: dict[str, Any] = {"engine": "sglang"}
NO: dict[str, Any] = {"engine": "vllm"}
UNKNOWN: dict[str, Any] = {"sm": "12.0"}


def judged(when: Any, **said: Any) -> bool | None:
    return compile_condition(when)(LaunchFacts(subject(said)))


@table(
    ("when", "truth"),
    [
        ([YES, YES], True),
        ([YES, UNKNOWN], None),
        ([NO, UNKNOWN], False),
        ([UNKNOWN, NO], False),
        ({"any": [YES, UNKNOWN]}, True),
        ({"any": [NO, UNKNOWN]}, None),
        ({"any": [NO, NO]}, False),
        ({"all": [YES, UNKNOWN]}, None),
        ({"not": YES}, False),
        ({"not": NO}, True),
        ({"not": UNKNOWN}, None),
        ({"not": {"any": [YES, UNKNOWN]}}, False),
    ],
)
def test_unknown_stays_unknown_unless_the_rest_decides(when: Any, truth: bool | None) -> None:
    assert judged(when) is truth


@table(
    ("test", "flags", "truth"),
    [
        ("--tp", "--tensor-parallel-size 4", True),
        ("--tp", "", False),
        ("--tp absent", "", True),
        ("--tp > 1", "--tp=4", True),
        ("--tp > 1", "--tp 1", False),
        ("--tp > 1", "", False),
        ("--tp > 1", "--tp '$GPUS'", None),
        ("--tp > 1", "--tp four", None),
        ("--attention-backend in triton, flashinfer", "--attention-backend flashinfer", True),
        ("--attention-backend is triton", "--attention-backend flashinfer", False),
        ("--kv-cache-dtype contains fp8", "--kv-cache-dtype fp8_e4m3", True),
        ("--kv-cache-dtype matches ^FP8", "--kv-cache-dtype fp8_e4m3", True),
        ("--tp is 8", "--tp 4 --tp 8", True),
    ],
)
def test_flags_are_asked_by_any_spelling(test: str, flags: str, truth: bool | None) -> None:
    assert judged({"flag": test}, flags=flags) is truth


@table(
    ("test", "truth"),
    [
        ("A on", True),
        ("A off", False),
        ("B off", True),
        ("C", False),
        ("C off", False),
        ("SECRET", True),
        ("SECRET absent", False),
        ("SECRET is 1", None),
        ("BLANK on", None),
    ],
)
def test_variables_that_are_secret_or_blank_are_not_known(test: str, truth: bool | None) -> None:
    said = {"env": {"A": "True", "B": "0", "BLANK": "${X}"}, "secret_env": {"SECRET": 3}}

    assert judged({"env": test}, **said) is truth


@table(
    ("version", "range_", "truth"),
    [
        ("0.5.10.post1", "<0.5.11", True),
        ("0.5.11", "<0.5.11", False),
        ("0.24.0", ">=0.24", True),
        ("0.23.9", ">=0.24", False),
        ("0.5.12", ">=0.5.11 <0.5.14", True),
        ("0.5.14", ">=0.5.11 <0.5.14", False),
        ("", "<0.5.11", None),
        ("0.5.12.dev4", "<0.5.11", None),
    ],
)
def test_versions_are_compared_by_release(version: str, range_: str, truth: bool | None) -> None:
    assert judged({"version": range_}, version=version) is truth


def test_the_version_is_read_off_the_image_where_nobody_asked_it() -> None:
    assert judged({"version": ">=0.5.12"}, image="lmsysorg/sglang:v0.5.12-cu130") is True
    assert judged({"version": ">=0.5.12"}, image="lmsysorg/sglang:latest-cu130") is None


@table(
    ("when", "said", "truth"),
    [
        ({"sm": "12.0, 12.1"}, {"box": "1x12.1"}, True),
        ({"sm": "12.0"}, {"box": "1x9.0"}, False),
        ({"sm": "12.0"}, {"box": "1x9.0 1x12.0", "gpus": "0"}, False),
        ({"sm": "12.0"}, {"box": "1x9.0 1x12.0", "gpus": "1"}, True),
        ({"sm": "12.0"}, {"gpus": "none"}, False),
        ({"sm_other_than": "9.0"}, {"box": "1x9.0 1x12.0"}, True),
        ({"sm_other_than": "9.0"}, {}, None),
        ({"gpu_count": "< 2"}, {"gpus": "0"}, True),
        ({"gpu_count": "< 2"}, {}, None),
        ({"gpu_count": "< 3"}, {"box": "8x12.0", "env": {"CUDA_VISIBLE_DEVICES": "4,5"}}, True),
        ({"gpu": "rtx pro"}, {"box": "1x12.0"}, True),
        ({"others": True}, {}, None),
        ({"others": True}, {"others": ["ollama"]}, True),
        ({"others": False}, {"others": []}, True),
        ({"driver": "<580"}, {"driver": "575.57.08"}, True),
        ({"weights_gib": "> 50"}, {"weights": 2**40}, True),
        ({"model": "nvfp4"}, {"config": {"quantization_config": {"quant_algo": "NVFP4"}}}, True),
        ({"model": "glm"}, {"checkpoint": "/m", "config": {"model_type": "glm_moe"}}, True),
        ({"launch": "privileged off"}, {}, True),
        ({"launch": "grace < 60"}, {"grace": 10}, True),
        ({"launch": "volumes contains :/dsv4"}, {"volumes": ["/x:/dsv4:ro"]}, True),
        ({"launch": "user"}, {}, False),
        ({"tp": "> 1"}, {"flags": "--tp 2"}, True),
        ({"ep": "> 1"}, {"engine": "vllm", "flags": "-tp 2 -ep"}, True),
        ({"nodes": "> 1"}, {"nodes": 2}, True),
    ],
)
def test_each_kind_of_condition(when: Any, said: dict[str, Any], truth: bool | None) -> None:
    assert judged(when, **said) is truth


@table(
    "when",
    [
        {},
        [],
        "engine",
        {"flags": "--tp"},
        {"flag": "tp"},
        {"flag": "--tp >"},
        {"flag": "--tp > one"},
        {"flag": "--tp absent 1"},
        {"flag": "--tp equals 1"},
        {"env": "A matches ("},
        {"launch": "no_such_field on"},
        {"engine": "tgi"},
        {"version": "0.5"},
        {"version": "<0.5 or so"},
        {"sm": "120"},
        {"box": "spark"},
        {"others": "yes"},
        {"tp": "1"},
        {"any": {"engine": "vllm"}},
        {"model": "("},
    ],
)
def test_a_condition_that_cannot_be_read_is_refused(when: Any) -> None:
    with pytest.raises(ConditionError):
        compile_condition(when)


GOOD = {
    "id": "x",
    "severity": "error",
    "when": {"engine": "sglang"},
    "about": "flags",
    "says": "No.",
    "source": "s",
}


@table(
    ("change", "message"),
    [
        ({"severity": "fatal"}, "rule x: severity must be one of"),
        ({"unknown": "error"}, "rule x: unknown must not be error"),
        ({"sevrity": "error"}, "rule x: sevrity is no key"),
        ({"says": None}, "rule x: says is missing"),
        ({"when": {"flag": "tp"}}, "rule x: when: “tp” is no flag"),
        ({"when": None}, "rule x: when is missing"),
        ({"fix": {"set_flag": {}}}, "rule x: fix: A change has no set_flag"),
        ({"fix": {"fields": {"no": 1}}}, "rule x: fix: A launch has no field no"),
        ({"fix": {"add": {"no": []}}}, "rule x: fix: A launch has no field no"),
        ({"source": "elsewhere"}, "rule x: source: elsewhere is not in sources.yaml"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    rule = {key: value for key, value in {**GOOD, **change}.items() if value is not None}
    (tmp_path / "sources.yaml").write_text("s: {title: somewhere}\n")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump([rule]))

    with pytest.raises(LintRuleError) as raised:
        load(tmp_path)

    assert f"mine.yaml: {message}" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "mine.yaml is not valid YAML"),
        ("a: 1", "mine.yaml must be a list of rules"),
        ("- one", "mine.yaml: rule 1 must be a mapping"),
        ("- id: x\n  id: y\n", "id is written twice"),
        (yaml.safe_dump([GOOD, GOOD]), "rule x: id is taken"),
    ],
)
def test_a_file_that_is_no_list_of_rules_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "sources.yaml").write_text("s: {title: somewhere}\n")
    (tmp_path / "mine.yaml").write_text(text)

    with pytest.raises(LintRuleError, match=message):
        load(tmp_path)


def test_a_rule_speaks_more_quietly_while_something_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text("s: {title: somewhere}\n")
    rule = {**GOOD, "unknown": "warning", "when": {"version": "<0.5", "sm": "12.0"}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump([rule]))
    (only,) = load(tmp_path)

    blind = only.judge(LaunchFacts(subject({})))
    sure = only.judge(LaunchFacts(subject({"version": "0.4.9", "box": "1x12.0"})))

    assert blind is not None
    assert sure is not None
    assert (blind.severity, sure.severity) == ("warning", "error")
    assert blind.unknown == ("the engine's version", "the GPUs")
    assert blind.says == "No. It depends on the engine's version and the GPUs: not known."
    assert sure.unknown == ()
    assert only.judge(LaunchFacts(subject({"version": "0.5.1"}))) is None
