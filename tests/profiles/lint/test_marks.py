"""What the profile form draws at words of its flags and variables."""

import shlex
from dataclasses import replace
from typing import Any

from servers.judge.profiles.facts import Subject
from servers.judge.profiles.vocabulary import MARKED, WordMark, find_marks
from servers.launch.engines.flaglist import Flag, FlagList
from tests.cases import table
from tests.profiles.lint.subjects import subject

FLAGS = FlagList(
    engine="vllm",
    version="9.9",
    flags=(
        Flag(names=("--max-model-len",), type="int"),
        Flag(names=("--tensor-parallel-size", "-tp"), type="int"),
        Flag(names=("--kv-cache-dtype",), choices=("auto", "fp8_e4m3", "fp8_e5m2")),
        Flag(names=("--kv-cache-dtype-skip-layers",), takes="many"),
        Flag(names=("--enforce-eager",), off=("--no-enforce-eager",), takes="none"),
        Flag(names=("--config-json",), type="json"),
    ),
    env=frozenset({"VLLM_LOGGING_LEVEL", "VLLM_CACHE"}),
    removed={"--old-name": "--max-model-len", "--gone": None},
)


def known(**said: Any) -> Subject:
    about = subject({"engine": "vllm", **said})
    return replace(about, engine_version="9.9", flaglist=FLAGS)


@table(
    ("flags", "says", "instead"),
    [
        (
            "--max-modle-len 1",
            "vLLM 9.9 has no --max-modle-len. Did you mean --max-model-len?",
            "--max-model-len",
        ),
        ("--zzz-of-our-fork 3", "vLLM 9.9 has no --zzz-of-our-fork, and nothing like it.", ""),
        ("--old-name 1", "vLLM 9.9 has no --old-name: it was removed. Write", "--max-model-len"),
        ("--gone", "vLLM 9.9 has no --gone: it was removed, and nothing took its place.", ""),
        ("--kv 1", "vLLM 9.9 does not know what --kv is short for", "--kv-cache-dtype"),
        ("a/b --max-model-len 1", "“a/b” stands before the first flag.", ""),
        ("-tp two", "-tp takes a whole number, not “two”.", ""),
        ("--kv-cache-dtype fp8_e5m", "vLLM 9.9 does not know “fp8_e5m”", ""),
        ("--kv-cache-dtype zzz", "vLLM 9.9 does not know “zzz” for --kv-cache-dtype.", ""),
        ("--enforce-eager on", "--enforce-eager takes no value; “on” after it is refused.", ""),
        ("--max-model-len", "--max-model-len needs a value.", ""),
        ("--max-model-len 1 2", "--max-model-len takes one value, not 2.", ""),
        ("--config-json '{\"a\": b}'", "The value of --config-json is not valid JSON", ""),
        ("-tp 1 -tp 2", "-tp is given 2 times; the last one counts, “2”.", ""),
    ],
)
def test_each_word_that_is_wrong_is_marked(flags: str, says: str, instead: str) -> None:
    (mark,) = find_marks(known(flags=flags))

    assert mark.says.startswith(says)
    assert (mark.box, mark.instead) == ("flags", instead)
    assert mark.word in ("", *shlex.split(flags))


@table(
    "flags",
    ["--max 1", "--max_model_len 1", "-tp $TP", "-tp '<how many>'", "--config-json.a=b"],
)
def test_what_the_engine_understands_or_is_still_open_is_not_marked(flags: str) -> None:
    assert find_marks(known(flags=flags)) == []


def test_a_mark_tells_which_of_several_words_it_means() -> None:
    flags = "--kv-cache-dtype auto --max-modle-len 1 --kv-cache-dtype fp9 --max-modle-len 2"

    marks = find_marks(known(flags=flags))

    assert [(each.word, each.nth, each.values, each.value) for each in marks] == [
        ("--max-modle-len", 0, None, 0),
        ("--max-modle-len", 1, None, 0),
        ("--kv-cache-dtype", 1, ("fp9",), 0),
        ("--kv-cache-dtype", 1, None, 0),
        ("--max-modle-len", 1, None, 0),
    ]


def test_a_parameter_is_judged_by_its_value() -> None:
    parameters = {"tp": "2"}

    assert find_marks(known(flags="-tp '{{tp}}'", parameters=parameters)) == []


def test_a_paste_of_nonsense_is_not_compared_for_ever() -> None:
    marks = find_marks(known(flags=" ".join(f"--{at}-nonsense" for at in range(500))))

    assert len(marks) == MARKED


def test_variables_that_nobody_reads_are_marked() -> None:
    (mark,) = find_marks(
        known(env={"VLLM_LOGING_LEVEL": "1", "VLLM_CACHE": "1", "NCCL_DEBUG": "1"})
    )

    assert mark == WordMark(
        box="env",
        severity="warning",
        says="vLLM 9.9 does not read VLLM_LOGING_LEVEL, so it does nothing. "
        "Did you mean VLLM_LOGGING_LEVEL?",
        word="VLLM_LOGING_LEVEL",
        instead="VLLM_LOGGING_LEVEL",
    )


@table(
    ("engine", "flags", "says", "instead"),
    [
        ("sglang", "--zzz-of-our-fork", "nothing like it", ""),
        ("vllm", "--kv-c 1", "does not know what --kv-c is short for", "--kv-cache-dtype"),
        ("vllm", "--max-modle-len 1", "Did you mean --max-model-len?", "--max-model-len"),
    ],
)
def test_an_image_that_nobody_has_asked_is_doubted(
    engine: str, flags: str, says: str, instead: str
) -> None:
    (mark,) = find_marks(subject({"engine": engine, "flags": flags}))

    assert says in mark.says
    assert mark.says.endswith("Which flags this image has is not known until it is inspected.")
    assert (mark.severity, mark.instead) == ("warning", instead)


def test_values_are_not_judged_by_another_versions_list() -> None:
    assert find_marks(subject({"engine": "vllm", "flags": "-tp two"})) == []


def test_what_serves_no_models_has_words_of_its_own() -> None:
    assert find_marks(subject({"engine": "other", "flags": "--anything 1 --anything 2"})) == []
