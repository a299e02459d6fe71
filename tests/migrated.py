"""An empty SQLite of the newest schema: made once for all stacks, as migrating takes six seconds."""

import atexit
import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from functools import cache
from importlib.metadata import version
from pathlib import Path

from tests.docker_engine import FOLDER
from tests.terminal import ROOT

NAME = "inferdash.sqlite3"
PATIENCE = 60  # seconds until whoever writes has written
TABLES = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"


def put_into(data: Path) -> None:
    """As if `manage.py migrate` had just run on this data folder."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(_template(), data / NAME)
    (data / NAME).chmod(0o600)


def put_back(data: Path, template: Path | None = None) -> None:
    """As after `put_into`, or as in another template, while programs have the database open.

    Nothing is ever numbered again as it was before: they may remember rows by their numbers.
    """
    source = f"file:{template or _template()}?immutable=1"
    path = f"file:{data / NAME}"
    with closing(sqlite3.connect(path, timeout=PATIENCE, autocommit=True, uri=True)) as database:
        database.execute("ATTACH DATABASE ? AS template", [source])
        tables = [name for (name,) in database.execute(TABLES)]
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("BEGIN IMMEDIATE")
        for name in tables:
            database.execute(f'DELETE FROM main."{name}"')  # noqa: S608 - a table's own name
            database.execute(f'INSERT INTO main."{name}" SELECT * FROM template."{name}"')  # noqa: S608
        database.execute("COMMIT")


@cache
def _template() -> Path:
    """Of this process alone: others may make newer ones, and the oldest goes."""
    folder = tempfile.TemporaryDirectory(prefix="inferdash-template-")
    atexit.register(folder.cleanup)
    return Path(shutil.copyfile(_latest(), Path(folder.name) / NAME))


def _latest() -> Path:
    path = FOLDER / f"migrated-{fingerprint()}.sqlite3"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            for old in sorted(FOLDER.glob("migrated-*.sqlite3"), key=os.path.getmtime)[:-3]:
                old.unlink()
            _make(path)
    return path


def _make(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="inferdash-migrated-") as folder:
        migrate = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
        environment = os.environ | {
            "INFERDASH_DATA": folder,
            "DJANGO_SETTINGS_MODULE": "inferdash.settings",
            "DATABASE_URL": "",
        }
        subprocess.run(migrate, cwd=ROOT, env=environment, check=True)
        made = Path(folder) / NAME
        # What still lies beside the file belongs into it before it is copied alone.
        connection = sqlite3.connect(made)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        shutil.copyfile(made, path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)


def fingerprint() -> str:
    """Of all by which a migrated database may differ from another."""
    told = hashlib.sha256(version("django").encode())
    for each in sorted(ROOT.glob("servers/**/migrations/*.py")):
        told.update(each.read_bytes())
    for each in sorted(ROOT.glob("servers/models/**/*.py")):
        told.update(each.read_bytes())  # content types and permissions go by them
    return told.hexdigest()[:16]
