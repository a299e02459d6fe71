"""The copy of the database that an upgrade takes, and its way back."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import databases
from tests.terminal import ROOT


def snapshot(verb: str, file: Path, environment: dict[str, str]) -> str:
    """What it said; "" when all went well."""
    command = [sys.executable, "-m", "inferdash.service.snapshot", verb, str(file)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert bool(done.returncode) is bool(done.stderr)
    return done.stderr


@pytest.fixture(scope="module", params=[databases.SQLITE, databases.POSTGRESQL])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """With ada in it."""
    with databases.database(request.param, tmp_path_factory.mktemp("place")) as environment:
        databases.run("User.objects.create(username='ada')", environment)
        yield environment | {"PATH": f"{os.environ['PATH']}:{_postgres_bin()}"}


def _postgres_bin() -> str:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return str(found[-1]) if found else ""


def people(environment: dict[str, str], code: str = "") -> str:
    ask = "print(*User.objects.order_by('username').values_list('username', flat=True))"
    return databases.run(f"{code}\n{ask}", environment).strip()


def test_what_was_there_comes_back_and_what_came_later_goes(
    place: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "snapshots/before"

    assert snapshot("take", file, place) == ""
    assert people(place, "User.objects.create(username='grace')") == "ada grace"
    assert snapshot("bring-back", file, place) == ""

    assert people(place) == "ada"
    assert [each.name for each in file.parent.iterdir()] == ["before"]


@pytest.fixture
def sqlite(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"INFERDASH_DATA": str(tmp_path / "var"), "DATABASE_URL": ""}


def test_what_still_stands_in_the_log_of_writes_is_in_the_copy(
    sqlite: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "var").mkdir()
    with closing(sqlite3.connect(tmp_path / "var/inferdash.sqlite3")) as database:
        database.executescript("PRAGMA journal_mode=WAL; CREATE TABLE t (x); BEGIN;")
        database.execute("INSERT INTO t VALUES (1)")
        database.commit()

        assert snapshot("take", tmp_path / "copy", sqlite) == ""

    with closing(sqlite3.connect(tmp_path / "copy")) as copied:
        assert copied.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_a_damaged_copy_is_not_brought_back(sqlite: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "copy").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    (tmp_path / "var/inferdash.sqlite3").write_bytes(b"what is here stays")

    assert "could not be copied" in snapshot("bring-back", tmp_path / "copy", sqlite)

    assert (tmp_path / "var/inferdash.sqlite3").read_bytes() == b"what is here stays"


def test_a_copy_is_tried_before_anything_is_stopped(place: dict[str, str], tmp_path: Path) -> None:
    assert snapshot("check", Path(), place) == ""
    if not place["DATABASE_URL"]:
        return
    bare = place | {"PATH": str(tmp_path)}
    assert "pg_restore is missing: install the client" in snapshot("check", Path(), bare)
    older = tmp_path / "pg_dump"
    older.write_text("#!/bin/sh\necho 'aborting because of server version mismatch' >&2; exit 1\n")
    older.chmod(0o755)
    said = snapshot("check", Path(), place | {"PATH": f"{tmp_path}:{place['PATH']}"})
    assert "version mismatch" in said
    assert "postgresql-client-17" in said
    away = place | {"DATABASE_URL": f"postgresql://tests@/postgres?host={tmp_path}"}
    assert "pg_dump said" in snapshot("check", Path(), away)


def test_a_copy_that_cannot_be_brought_back_changes_nothing(
    place: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "broken").write_bytes(b"PGDMP and nothing more")
    assert "could not be copied" in snapshot("bring-back", tmp_path / "broken", place)
    assert "is not there" in snapshot("bring-back", tmp_path / "none", place)
    assert people(place) == "ada"


# As a migration of a newer release leaves it: a table more, which leans on one that was there.
NEWER = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("CREATE TABLE servers_newer (id bigint PRIMARY KEY, who bigint REFERENCES servers_user (id))")
    cursor.execute("ALTER TABLE servers_user ADD COLUMN newer varchar(9)")
    cursor.execute("CREATE TABLE somebody_elses (id bigint)")
"""
TABLES = """
from django.db import connection
names = connection.introspection.table_names()
print("servers_newer" in names, "somebody_elses" in names)
"""


def test_what_a_newer_release_has_added_goes_with_it(place: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "snapshots/before"
    assert snapshot("take", file, place) == ""
    databases.run(NEWER, place)

    assert snapshot("bring-back", file, place) == ""

    assert people(place) == "ada"
    is_postgres = bool(place["DATABASE_URL"])
    # Of a database that is shared nothing goes that is not inferdash's. SQLite is a file of its own.
    assert databases.run(TABLES, place).split() == ["False", str(is_postgres)]
    databases.run(NEWER.replace("somebody", "anybody"), place)  # the upgrade is tried again
