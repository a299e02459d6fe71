import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from inferdash.dotenv import read_env_file


def read(path: Path, text: str) -> None:
    path.write_text(text)
    read_env_file(path)


def test_values_quotes_and_comments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", environment)

    read(
        tmp_path / ".env",
        "# a comment\n\nPLAIN=value\nexport EXPORTED = spaced \nQUOTED='a # b'\n"
        'DOUBLE="two words"\nTRAILING=value # why\nEMPTY=\nURL=redis://:p#w@h/0\n',
    )

    assert environment == {
        "PLAIN": "value",
        "EXPORTED": "spaced",
        "QUOTED": "a # b",
        "DOUBLE": "two words",
        "TRAILING": "value",
        "EMPTY": "",
        "URL": "redis://:p#w@h/0",
    }


def test_a_variable_that_is_set_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"PORT": "8471"}
    monkeypatch.setattr(os, "environ", environment)

    read(tmp_path / ".env", "PORT=8470\n")

    assert environment == {"PORT": "8471"}


def test_no_file_is_no_error(tmp_path: Path) -> None:
    read_env_file(tmp_path / ".env")


def test_a_line_that_is_no_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"\.env, line 2: write NAME=value"):
        read(tmp_path / ".env", "# fine\nPORT 8470\n")
