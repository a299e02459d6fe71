import os
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from inferdash.environment import read_env_file
from inferdash.settings import env_ports
from tests.cases import table


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


@table("text", ["18000", "18000-", "-18000", "18099-18000", "80-90", "60000-70000", "a-b", "1-2-3"])
def test_ports_for_engines_are_a_first_and_a_last(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTS_OF_A_TEST", text)
    with pytest.raises(ImproperlyConfigured, match="PORTS_OF_A_TEST is"):
        env_ports("PORTS_OF_A_TEST", "18000-18099")


def test_one_port_for_engines_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTS_OF_A_TEST", "18000 - 18000")
    assert list(env_ports("PORTS_OF_A_TEST", "1024-1025")) == [18000]
