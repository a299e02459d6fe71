"""The data of a make up become those of the services."""

import fcntl
import os
import shutil
import stat
from pathlib import Path

import pytest

from inferdash.service import files, layout
from inferdash.service.layout import Account, ServiceError


@pytest.fixture
def me(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    """Whoever runs the tests, with folders of their own in place of the machine's."""
    data = tmp_path / "lib"
    data.mkdir()
    monkeypatch.setattr(layout, "DATA", data)
    monkeypatch.setattr(layout, "BOX_FILE", tmp_path / "box.toml")
    owner = data.owner()
    monkeypatch.setattr(files, "ADMIN", owner)
    return Account(user=owner, group=data.group(), is_ours=False, docker_group="")


@pytest.fixture
def var(tmp_path: Path) -> Path:
    folder = tmp_path / "var"
    folder.mkdir()
    for name in ("inferdash.sqlite3", "inferdash.sqlite3-wal", "secrets.key", "install.id"):
        (folder / name).write_text(name)
    (folder / "box.toml").write_text("reclaim = true\n")
    (folder / "redis").mkdir()
    return folder


def test_people_keys_and_limits_come_along_and_the_old_ones_stay(var: Path, me: Account) -> None:
    (var / "tls").mkdir()
    (var / "tls/ca.key").touch(0o600)
    before = sorted(each.name for each in var.iterdir())

    files.take_over(var, me, "any")

    # Whoever trusts the authority of the make up need not do so again.
    assert stat.S_IMODE((layout.DATA / "tls/ca.key").stat().st_mode) == 0o600
    shutil.rmtree(layout.DATA / "tls")
    taken = sorted(each.name for each in layout.DATA.iterdir())
    assert taken == ["inferdash.sqlite3", "inferdash.sqlite3-wal", "install.id", "secrets.key"]
    assert layout.BOX_FILE.read_text() == "reclaim = true\n"
    assert stat.S_IMODE(layout.BOX_FILE.stat().st_mode) == 0o640
    assert sorted(each.name for each in var.iterdir()) == before


def test_a_make_up_that_still_runs_is_to_be_stopped_first(var: Path, me: Account) -> None:
    descriptor = os.open(var / "up.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    with pytest.raises(ServiceError, match="stop it first"):
        files.take_over(var, me, "any")

    os.close(descriptor)
    assert list(layout.DATA.iterdir()) == []


def test_a_database_that_is_there_is_not_written_over(var: Path, me: Account) -> None:
    (layout.DATA / "inferdash.sqlite3").write_text("mine")

    with pytest.raises(ServiceError, match="not written over"):
        files.take_over(var, me, "any")

    assert (layout.DATA / "inferdash.sqlite3").read_text() == "mine"


def test_another_folder_is_said_to_be_none(tmp_path: Path, me: Account) -> None:
    with pytest.raises(ServiceError, match="is no data folder of make up"):
        files.take_over(tmp_path, me, "any")
