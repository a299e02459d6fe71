"""Pastes as people make them, with what must come out. The files under cases/ say both.

A case is "### a sentence", the paste, and "--- gives" with one JSON object a command (fields that
are null, empty or false left out), or "--- fails at LINE:COLUMN" with the reason.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from servers.commandline.command import PasteError
from servers.commandline.read import read

_CASES = Path(__file__).parent / "cases"
_OUTCOME = re.compile(r"^--- (gives|fails at (\d+):(\d+))\n", re.MULTILINE)


def _cases(outcome: str) -> list[Any]:
    found = []
    for file in sorted(_CASES.glob("*.txt")):
        for part in re.split(r"^### ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            name, _, rest = part.partition("\n")
            match = _OUTCOME.search(rest)
            assert match is not None, name
            if match[1].startswith(outcome):
                paste, expected = rest[: match.start()], rest[match.end() :].strip()
                found.append(pytest.param(paste, match, expected, id=f"{file.stem}: {name}"))
    return found


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


@pytest.mark.parametrize(("paste", "match", "expected"), _cases("gives"))
def test_a_paste_is_read(paste: str, match: re.Match[str], expected: str) -> None:
    assert said(paste) == [json.loads(line) for line in expected.splitlines()]


@pytest.mark.parametrize(("paste", "match", "expected"), _cases("fails"))
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
