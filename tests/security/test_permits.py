"""box.toml changed on the box by the line that a refusal prints."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from servers.judge.runs import limits
from servers.lifecycle.runs import creation
from servers.models import AuditEntry
from tests.cases import table

pytestmark = pytest.mark.django_db


@pytest.fixture
def file(settings: Any, tmp_path: Path) -> Path:
    settings.BOX_FILE = tmp_path / "box.toml"
    settings.HOME = "/home/ada"
    settings.DATA = tmp_path / "var"
    settings.BOX_FILE.write_text(limits.default_text("/home/ada"))
    settings.BOX_FILE.chmod(0o640)
    return tmp_path / "box.toml"


def test_a_line_changes_the_file_at_once_and_the_activity_says_so(file: Path) -> None:
    call_command("allow", "host_network")
    call_command("allow", "mount", "/x", "/y z")
    call_command("forbid", "mount", "/raid")

    allowed = creation.read_limits()
    assert allowed.host_network
    assert {"/x", "/y z"} < set(allowed.mount_roots)
    assert "/raid" not in allowed.mount_roots
    assert file.stat().st_mode & 0o777 == 0o640
    assert list(file.parent.iterdir()) == [file]
    noted = [(entry.action, entry.detail["limit"]) for entry in AuditEntry.objects.order_by("pk")]
    assert noted == [
        ("allow", "host_network"),
        ("allow", "mount /x /y z"),
        ("forbid", "mount /raid"),
    ]


def test_what_is_so_already_is_neither_written_nor_noted(file: Path) -> None:
    before = file.stat().st_mtime_ns
    call_command("allow", "mount", "/data")
    call_command("forbid", "host_network")

    assert file.stat().st_mtime_ns == before
    assert not AuditEntry.objects.exists()


@table(
    ("words", "says"),
    [
        (["host_networks"], "Is host_network meant"),
        (["host_network", "yes"], "takes nothing behind it"),
        (["mount"], "Say which"),
        (["mount", "models"], "no whole path"),
        (["mount", "/a/../etc"], "no whole path"),
        (["mount", "/"], "would give the container control of this box"),
        (["mount", "/home/ada"], "Mount only what the engine needs"),
        (["mount", "/home"], "Mount only what the engine needs"),
        (["mount", "/home/ada/.ssh"], "programs of an account"),
        (["mount", "/fine", "/home/ada/.bashrc"], "programs of an account"),
        (["mount", "{data}"], "would give the container control of this box"),
        (["device", "kvm"], "no device"),
        (["device", "/dev"], "no device"),
        (["device", "/dev/../etc/shadow"], "no device"),
        (["capability", "NET_ROW"], "Is NET_RAW meant"),
        (["volume", "/etc"], "not a name"),
        (["security_opt", "secomp=unconfined"], "no security option"),
    ],
    shared=("file",),
)
def test_what_is_no_limit_or_gives_the_box_away_changes_nothing(
    words: list[str], says: str, file: Path
) -> None:
    before = file.read_text()

    with pytest.raises(CommandError, match=says):
        call_command("allow", *(word.replace("{data}", str(file.parent / "var")) for word in words))

    assert file.read_text() == before
    assert not AuditEntry.objects.exists()


def test_a_broken_file_is_not_written_over(file: Path) -> None:
    file.write_text("mount_roots = [")

    with pytest.raises(CommandError, match="not valid TOML"):
        call_command("allow", "mount", "/x")

    assert file.read_text() == "mount_roots = ["


def test_where_root_writes_the_file_it_is_told_what_and_notes_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As inferdash-manage of an installed inferdash, whose services cannot write it."""
    before = file.read_text()
    call_command("allow", "host_network", "--as-text")
    printed = capsys.readouterr().out

    assert file.read_text() == before
    assert limits.parse(printed).host_network
    call_command("allow", "host_network", "--note-only")
    assert AuditEntry.objects.get().detail["limit"] == "host_network"
