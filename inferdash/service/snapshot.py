"""The whole database as a file: what an upgrade takes before it changes anything.

`python -m inferdash.service.snapshot check|take|bring-back FILE`, as the user of the services.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

# A newer release has made tables that the copy does not know, and that lean on those it brings.
_DROP = """
DO $$ DECLARE each record; BEGIN
  FOR each IN SELECT tablename FROM pg_tables
    WHERE schemaname = current_schema() AND tablename LIKE 'servers\\_%' LOOP
    EXECUTE format('DROP TABLE IF EXISTS %I.%I CASCADE', current_schema(), each.tablename);
  END LOOP;
END $$;
"""


class SnapshotError(Exception):
    """Why there is none, or why it was not brought back, and what to do."""


def main(verb: str, name: str) -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    from django.conf import settings

    database, file = settings.DATABASES["default"], Path(name)
    is_sqlite = database["ENGINE"].endswith("sqlite3")
    try:
        if verb == "check":
            if not is_sqlite:
                _check_postgres(database)
        elif verb == "take":
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = file.with_name(f".{file.name}")
            draft.unlink(missing_ok=True)
            if is_sqlite:
                _copy(Path(database["NAME"]), draft)
            else:
                _postgres("pg_dump", database, "--format=custom", f"--file={draft}")
            draft.replace(file)
        elif is_sqlite:
            _bring_back(file, Path(database["NAME"]))
        else:
            _bring_back_postgres(file, database)
    except (SnapshotError, sqlite3.Error, OSError) as error:
        print(f"The database could not be copied: {error}", file=sys.stderr)
        return 1
    return 0


def _copy(source: Path, target: Path) -> None:
    """Also of one that is written to, with what still stands in its log of writes."""
    if source.exists() and shutil.disk_usage(target.parent).free < 2 * source.stat().st_size:
        raise SnapshotError(
            f"there is no room for a copy of {source} on its disk. Make some first."
        )
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)
    target.chmod(0o600)


def _bring_back(file: Path, target: Path) -> None:
    if not file.exists():
        raise SnapshotError(f"{file} is not there.")
    with closing(sqlite3.connect(file)) as found:
        if found.execute("PRAGMA quick_check").fetchone() != ("ok",):
            raise SnapshotError(f"{file} is damaged.")
    draft = target.with_suffix(".back")
    draft.unlink(missing_ok=True)
    _copy(file, draft)
    # The log of writes belongs to the file that goes.
    for end in ("-wal", "-shm"):
        target.with_name(target.name + end).unlink(missing_ok=True)
    draft.replace(target)


def _check_postgres(database: dict[str, Any]) -> None:
    """Whether a copy could be made now, and brought back: asked before anything is stopped."""
    for program in ("pg_restore", "psql"):
        _postgres(program, database, "--version")
    _postgres("pg_dump", database, "--schema-only", f"--file={os.devnull}")


def _bring_back_postgres(file: Path, database: dict[str, Any]) -> None:
    """All of it or nothing."""
    if not file.exists():
        raise SnapshotError(f"{file} is not there.")
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        drop, script = Path(folder) / "drop.sql", Path(folder) / "copy.sql"
        drop.write_text(_DROP)
        # What roles of boxes may do, the keeper grants anew; they may not be there yet.
        clean = ("--clean", "--if-exists", "--no-owner", "--no-privileges")
        _postgres("pg_restore", database, *clean, f"--file={script}", str(file))
        words = ("--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1")
        _postgres("psql", database, *words, f"--file={drop}", f"--file={script}")


def _postgres(program: str, database: dict[str, Any], *words: str) -> None:
    """The address goes by the environment: everybody can read the words of a command."""
    variables = {
        "PGHOST": database["HOST"],
        "PGPORT": database["PORT"],
        "PGUSER": database["USER"],
        "PGPASSWORD": database["PASSWORD"],
        "PGDATABASE": database["NAME"],
        "PGSSLMODE": str(database["OPTIONS"].get("sslmode", "")),
    }
    given = {name: value for name, value in variables.items() if value}
    try:
        done = subprocess.run(
            [program, *words], env=os.environ | given, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise SnapshotError(
            f"{program} is missing: install the client of your PostgreSQL (sudo apt install "
            "postgresql-client), or copy the database yourself and say NO_SNAPSHOT=1."
        ) from error
    if done.returncode:
        older = "server version mismatch" in done.stderr
        advice = (
            " Install the client of your PostgreSQL's own version (postgresql-client-17, …), or "
            "copy the database yourself and say NO_SNAPSHOT=1."
        )
        raise SnapshotError(f"{program} said: {done.stderr.strip()}{advice if older else ''}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
