"""Every case of tests.commandline.pastes."""

import json
import re
from typing import Any

import pytest

from servers.commandline.command import PasteError
from servers.commandline.read import read
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


@pytest.mark.parametrize(("paste", "match", "expected"), params("gives"))
def test_a_paste_is_read(paste: str, match: re.Match[str], expected: str) -> None:
    assert said(paste) == [json.loads(line) for line in expected.splitlines()]


@pytest.mark.parametrize(("paste", "match", "expected"), params("fails"))
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
        security_opt init service unresolved ignored"""
    assert list(command.to_json()) == fields.split()
