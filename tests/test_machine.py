from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import machine
from tests.machine import Need


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """What apt is asked for, where a program is missing that no package has."""
    calls: list[list[str]] = []
    monkeypatch.delenv("INSTALL", raising=False)
    monkeypatch.setattr(machine, "POLICY", tmp_path / "policy-rc.d")
    monkeypatch.setattr(
        machine, "NEEDS", (Need(package="brewer", programs=("brew-tea",), why="tea"),)
    )
    monkeypatch.setattr(machine, "_available", lambda packages: packages)

    def apt(arguments: list[str]) -> None:
        assert machine.POLICY.read_text() == "#!/bin/sh\nexit 101\n"
        calls.append(arguments)

    monkeypatch.setattr(machine, "_apt", apt)
    yield calls
    assert not machine.POLICY.exists()


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name, **_: name if name == "apt-get" else None)


@pytest.mark.usefixtures("as_root")
def test_root_is_told_what_is_installed_and_where_before_it_is(
    asked: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    machine.main()

    assert "Installing with apt, for all of its users" in capsys.readouterr().out
    assert [words[0] for words in asked] == ["update", "install"]
    assert asked[1][-1] == "brewer"


@pytest.mark.usefixtures("as_root")
def test_nothing_is_installed_where_that_is_refused(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INSTALL", "0")

    machine.main()

    assert asked == []
    said = capsys.readouterr().err
    assert "(INSTALL=0)" in said
    assert "brewer: tea" in said


def test_others_than_root_are_told_what_to_say(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    machine.main()

    assert asked == []
    assert "sudo apt install brewer" in capsys.readouterr().err


@pytest.mark.usefixtures("as_root")
def test_a_policy_that_stands_there_stays(
    asked: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own-policy"
    own.write_text("#!/bin/sh\nexit 101\n")
    monkeypatch.setattr(machine, "POLICY", own)

    machine.main()

    assert own.read_text() == "#!/bin/sh\nexit 101\n"
    assert asked
    own.unlink()
