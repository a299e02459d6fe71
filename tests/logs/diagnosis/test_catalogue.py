"""Every entry of the catalogue: words that it is recognised by, and near misses that it is not."""

import re
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from servers.judge.logs import failure_catalog
from servers.judge.logs.diagnosis import Diagnosis, Ending, diagnose, head_and_tail
from servers.judge.logs.failure_catalog import FailureError
from servers.judge.profiles.facts import LaunchFacts
from tests.cases import table
from tests.profiles.lint.subjects import GIB, subject


@cache
def written() -> dict[str, dict[str, Any]]:
    """The words of the files of cases, by entry."""
    found: dict[str, dict[str, Any]] = {}
    for path in Path(__file__).parent.glob("cases*.yaml"):
        said = yaml.safe_load(path.read_text())
        assert not set(said) & set(found), path.name
        found |= said
    return found


def cause_of(text: str, said: dict[str, Any], *, ready: bool = False) -> str | None:
    found = _found(text, said, ready=ready)
    assert not re.search(r"\{\w+\}", found.summary), found.summary
    return found.cause


def _found(text: str, said: dict[str, Any], *, ready: bool) -> Diagnosis:
    around = dict(said)
    unheld = around.pop("unheld_gib", None)
    ending = Ending(
        lines=head_and_tail(text.rstrip("\n").split("\n")),
        exit_code=1,
        subject=_subject(around) if around else None,
        was_ready=True if ready else None,
        unheld=None if unheld is None else int(unheld * GIB),
    )
    return diagnose(ending)


def _subject(around: dict[str, Any]) -> Any:

    kind = around.pop("kind", "")
    names = around.pop("gpu_names", None)
    made = replace(subject(around), box_kind=kind)
    if names:
        gpus = tuple(
            replace(gpu, name=name) for gpu, name in zip(made.gpus or (), names, strict=True)
        )
        made = replace(made, gpus=gpus)
    return made


def test_every_entry_has_cases() -> None:
    assert set(written()) == set(failure_catalog.by_id())


@table("name", failure_catalog.by_id)
def test_it_is_recognised(name: str) -> None:
    case = written()[name]
    for text in case["is"]:
        assert cause_of(text, case.get("launch", {}), ready=case.get("ready", False)) == name, text


@table("name", failure_catalog.by_id)
def test_a_near_miss_is_not_taken_for_it(name: str) -> None:
    case = written()[name]
    assert case["not"]
    for text in case["not"]:
        found = cause_of(text, case.get("launch", {}), ready=case.get("ready", False))
        assert found != name, text
    if case.get("launch"):
        for text in case["is"]:
            assert cause_of(text, {}, ready=case.get("ready", False)) != name


@table("name", failure_catalog.by_id)
def test_it_says_what_to_do_and_where_that_is_known_from(name: str) -> None:
    failure = failure_catalog.by_id()[name]

    assert failure.says.endswith((".", "}", ":"))
    # What is only told by its own words has no cure that is known.
    assert failure.remedies or failure.is_of_exception
    assert failure.sources
    groups = {"args": "--foo", "arg": "--foo"}
    told = [each for each in failure.remedies if each.fits(failure.engine, groups)]
    assert all(each.text(groups, engine=failure.engine).strip() for each in told)


@table(
    ("name", "engine"),
    lambda: product(failure_catalog.by_id(), ["vllm", "sglang", "llamacpp"]),
)
def test_its_changes_can_be_applied(name: str, engine: str) -> None:
    facts = LaunchFacts(
        subject({"engine": engine, "version": "0.5.12" if engine == "sglang" else ""})
    )
    groups = {"est": "4096", "max": "8192", "args": "--foo 1 --bar", "arg": "--foo", "n": "2"}
    groups |= {"fits": "0.8", "blocks": "64", "len": "4096", "rank": "64"}
    for remedy in failure_catalog.by_id()[name].remedies:
        if remedy.fits(engine, groups) and (made := remedy.apply(facts, groups)):
            assert made.apply(facts.launch) != facts.launch


def test_known_harmless_lines_have_a_reason() -> None:
    said = "User lacks permission to set NUMA affinity, skipping NUMA node configuration for GPU."

    assert failure_catalog.why_harmless(said).startswith("Without the capability SYS_NICE")
    others = (
        "Default vLLM sampling parameters have been overridden by the model's `generation_config.json`",
        "Ignore import error when loading sglang.srt.models.plum: No module named 'plum'",
        "[0/0] Not enough SMs to use max_autotune_gemm mode",
        "FlashInfer is not available. Falling back to the PyTorch-native implementation of top-p",
        "UserWarning: pkg_resources is deprecated as an API.",
    )
    assert all(map(failure_catalog.why_harmless, others))
    assert not failure_catalog.why_harmless("ImportError: No module named 'plum'")
    assert failure_catalog.why_harmless("torch.OutOfMemoryError: CUDA out of memory.") == ""
    ids = [each.id for each in failure_catalog.harmless()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- {id: x, stage: load, match: '(', says: A., source: measured}", "unterminated"),
        ("- {id: x, stage: load, match: a, says: 'No {who}.', source: measured}", "who"),
        ("- {id: x, stage: load, match: a, says: A., source: measured, fix: []}", "fix"),
        ("- {id: x, stage: load, match: a, says: A., source: measured, fixes: [{}]}", "nothing"),
        ("- {id: x, stage: load, match: a, says: A., source: m, absorbs: [nobody]}", "nobody"),
        ("- {id: x, stage: load, match: a, says: A., source: m, rank: first}", "rank is one of"),
        ("just words", "must be a list"),
    ],
)
def test_a_wrong_entry_is_refused_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "some.yaml").write_text(text)

    with pytest.raises(FailureError, match=complaint):
        failure_catalog.load(tmp_path)
