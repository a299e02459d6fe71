"""Every case of tests.commandline.pastes."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from servers.launch.commandline.paste import read
from servers.launch.commandline.tokens import PasteError
from tests.cases import table
from tests.commandline.pastes import cases


def params(outcome: str) -> list[Any]:
    return [
        pytest.param(case.paste, case.outcome, case.expected, id=case.name)
        for case in cases(outcome)
    ]


def said(paste: str) -> list[dict[str, Any]]:
    """What is read, without what the paste does not say."""
    return [
        {
            name: value
            for name, value in command.to_json().items()
            if value is not None and value is not False and value not in ([], {})
        }
        for command in read(paste)
    ]


@table(("paste", "match", "expected"), lambda: params("gives"))
def test_a_paste_is_read(paste: str, match: re.Match[str], expected: str) -> None:
    assert said(paste) == [json.loads(line) for line in expected.splitlines()]


@table(("paste", "match", "expected"), lambda: params("fails"))
def test_a_paste_is_refused(paste: str, match: re.Match[str], expected: str) -> None:
    with pytest.raises(PasteError) as caught:
        read(paste)
    assert (caught.value.line, caught.value.column) == (int(match[2]), int(match[3]))
    assert caught.value.reason == expected
    assert str(caught.value).startswith(f"Line {match[2]}, column {match[3]}: ")


def test_windows_line_ends_are_line_ends() -> None:
    paste = "docker run --gpus all \\\r\n  img/x \\\r\n  --model y\r\n"
    assert read(paste) == read(paste.replace("\r\n", "\n"))


def test_every_field_stands_in_the_json() -> None:
    (command,) = read("vllm serve acme/Plum-8B")
    fields = """kind engine image entrypoint command env env_file volumes ports ipc shm_size ulimits
        gpus runtime network cap_add privileged name restart devices cpuset user workdir
        security_opt init service real_names unresolved ignored"""
    assert list(command.to_json()) == fields.split()


_DISGUISES: dict[str, Callable[[str], str]] = {
    "in a fence": lambda text: f"```bash\n{text.rstrip()}\n```\n",
    "between prose": lambda text: f"Start it:\n\n{text.rstrip()}\n\nThen open the page.\n",
    "indented": lambda text: "\n".join(f"    {line}" for line in text.split("\n")),
    "quoted": lambda text: "\n".join(f"> {line}" for line in text.rstrip("\n").split("\n")),
    "with blanks behind backslashes": lambda text: text.replace("\\\n", "\\  \n"),
    "with blanks of a web page": lambda text: text.replace(" --", "\u00a0--"),
}


# In these what stands around or behind a line is part of what is said.
_LITERAL = ("line numbers of a listing", "bash -c over several lines")


def disguised() -> Iterator[Any]:
    for case in cases("gives"):
        if not any(words in case.name for words in _LITERAL):
            for disguise in _DISGUISES:
                yield pytest.param(case.paste, disguise, id=f"{case.name}, {disguise}")


# One paste has many disguises.
said_plainly = cache(said)


@table(("paste", "disguise"), disguised)
def test_a_paste_says_the_same_in_disguise(paste: str, disguise: str) -> None:
    assert said(_DISGUISES[disguise](paste)) == said_plainly(paste)


def test_the_column_of_an_error_counts_what_stands_before_every_line() -> None:
    with pytest.raises(PasteError) as caught:
        read("    vllm serve a/b\n    vllm serve 'x")

    assert (caught.value.line, caught.value.column) == (2, 16)
