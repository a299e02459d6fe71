"""Commands in a data folder where inferdash was never started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers.lifecycle.people import backup
from tests import factories
from tests.terminal import ROOT

pytestmark = pytest.mark.django_db


def manage(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"INFERDASH_DATA": str(folder), "DATABASE_URL": "", "REDIS_URL": ""}
    command = [sys.executable, "manage.py", *words]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.takes(40)
def test_a_backup_is_restored_where_there_are_no_tables_yet(tmp_path: Path) -> None:
    factories.server(factories.box())
    path = tmp_path / "monday.inferdash"
    backup.take(path, passphrase="")

    said = manage(tmp_path / "var", "restore", str(path), "--without-secrets")

    assert said.returncode == 0, said.stderr
    assert "1 server" in said.stdout
    assert "not empty" in manage(tmp_path / "var", "restore", str(path)).stderr


def test_other_commands_say_that_there_are_no_tables_yet(tmp_path: Path) -> None:
    backup = str(tmp_path / "a.inferdash")
    failed = []
    for words in (["backup", backup], ["invite"], ["leave", "/tmp"], ["allow", "host_network"]):
        said = manage(tmp_path / "var", *words)
        if said.returncode != 1 or "has no tables yet" not in said.stderr:
            failed.append((words, said.stderr))
    assert failed == []
