"""All rows from SQLite to PostgreSQL: alike, killed in the middle, and refused."""

import ast
import fcntl
import hashlib
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tests import databases

# Many rows in two tables, and what PostgreSQL keeps otherwise than SQLite does.
FILL = """
from django.db.migrations.loader import MigrationLoader
from django.db import connection
from tests import old_rows

loader = MigrationLoader(connection)
leaf = [each for each in loader.graph.leaf_nodes() if each[0] == "servers"]
old_rows.fill(loader.project_state(leaf).apps)
box = Box.objects.get()
box.memory_best = {"a": -0.0, "b": 1e22, "c": 0.1, "d": 5e-324, "e": "NUL \\0", "ü": [None, True]}
box.save()
ada = User.objects.get()
ada.groups.create(name="a group")
AuditEntry.objects.bulk_create(
    [AuditEntry(by=ada, action="start", subject=f"s{n} \\0", detail={"n": n}) for n in range(450)]
)
AuditEntry.objects.filter(subject__startswith="s0 ").update(subject="x" * 300)
Profile.objects.update(current=ProfileVersion.objects.get())
Profile.objects.get().fans.add(ada)
Server.objects.update(run=Run.objects.get())
Server.objects.get().fans.add(ada)
Run.objects.get().waits_for.add(Run.objects.get())
"""
SUMS = """
from django.db import connection
def count():
    found = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT count(*) FROM {table}")
            found[table] = cursor.fetchone()[0]
    return found
print(sorted(count().items()))
"""
ARRIVED = """
from servers.models import Run
box, entry = Box.objects.get(), AuditEntry.objects.order_by("pk")
made = AuditEntry.note(None, "note", "the next number")
print([
    box.memory_best["c"], box.memory_best["d"], box.memory_best["e"], box.memory_best["ü"],
    made.pk > entry[450].pk, len(entry[1].subject), entry[2].subject,
    Profile.objects.get().current.pk == ProfileVersion.objects.get().pk,
    Server.objects.get().run == Run.objects.get(), bytes(LogChunk.objects.get().body),
    Profile.objects.get().fans.count(),
])
made.delete()
"""
MOVE = """
from django.core.management import CommandError, call_command
from django.db import connections
from pathlib import Path
from servers.lifecycle.links import database_move
import os, signal

def move():
    try:
        call_command("move-database", to={url!r})
    except CommandError as error:
        print(error)

def move_and_die(tables):
    # As by SIGKILL where it has copied so many tables, or where it would rename the file.
    connections.close_all()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    left, copy = tables, database_move._copy
    def die(*arguments):
        os.kill(os.getpid(), signal.SIGKILL)
    def copy_until(*arguments):
        nonlocal left
        copy(*arguments)
        left -= 1
        if left == 0:
            die()
    database_move._copy, Path.rename = copy_until, die
    move()
    os._exit(1)
"""


@dataclass(frozen=True, kw_only=True)
class MoveBench:
    source: dict[str, str]
    target: dict[str, str]
    migrated: dict[str, str]  # a database with the same tables, and no rows
    url: str
    path: Path

    def move(self) -> str:
        """What it said."""
        return databases.run(MOVE.format(url=self.url) + "move()", self.source)

    def move_and_die(self, *, tables: int) -> None:
        code = MOVE.format(url=self.url) + f"print(move_and_die({tables}))"
        assert databases.run(code, self.source).split()[-1] == str(-signal.SIGKILL)

    def hash_source(self) -> str:
        with closing(sqlite3.connect(self.path)) as connection:
            return hashlib.sha256("\n".join(connection.iterdump()).encode()).hexdigest()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MoveBench]:
    folder = tmp_path_factory.mktemp("sqlite")
    with (
        databases.database(databases.POSTGRESQL, tmp_path_factory.mktemp("target")) as target,
        databases.database(databases.SQLITE, folder) as source,
    ):
        path = folder / "var" / "inferdash.sqlite3"
        databases.run(FILL, source)
        url = target["DATABASE_URL"].replace("/postgres?", "/moved?")
        with psycopg.connect(
            target["DATABASE_URL"].replace("/postgres?", "/template1?"), autocommit=True
        ) as connection:
            # Without tables: the move makes them, while SQLite is the default database.
            connection.execute("CREATE DATABASE moved TEMPLATE template0")
        moved = target | {"DATABASE_URL": url}
        yield MoveBench(source=source, target=moved, migrated=target, url=url, path=path)


def test_a_move_survives_every_kill_and_arrives_whole(bench: MoveBench) -> None:
    before, untouched = databases.run(SUMS, bench.source), bench.hash_source()
    empty = databases.run(SUMS, bench.migrated)

    bench.move_and_die(tables=25)
    assert bench.hash_source() == untouched
    assert databases.run(SUMS, bench.target) == empty

    bench.move_and_die(tables=10_000)
    assert bench.path.exists()
    assert bench.hash_source() == untouched

    done = bench.move()
    kept = next(bench.path.parent.glob("inferdash.sqlite3.moved-*"))
    assert str(kept) in done
    assert "both were compared and are alike" in done
    assert not bench.path.exists()
    after = databases.run(SUMS, bench.target)
    assert _drop_own(after) == _drop_own(before)
    assert min(dict(_drop_own(after)).values()) > 0
    assert databases.run(ARRIVED, bench.target).strip() == str(
        [0.1, 5e-324, "NUL \ufffd", [None, True], True, 200, "s1 \ufffd", True, True, b"sealed", 1]
    )

    # What is there already is nobody's to write over.
    kept.rename(bench.path)
    databases.run("AuditEntry.note(None, 'note', 'since then')", bench.target)
    assert "has rows already" in bench.move()
    assert bench.path.exists()


def _drop_own(printed: str) -> list[tuple[str, int]]:
    """Without what each database has of its own, and what nothing is kept in."""
    own = ("django_migrations", "auth_group_permissions", "servers_user_user_permissions")
    return [each for each in ast.literal_eval(printed) if each[0] not in (*own, "django_session")]


def test_nothing_is_moved_while_anybody_is_at_the_file(bench: MoveBench) -> None:
    if not bench.path.exists():
        next(bench.path.parent.glob("inferdash.sqlite3.moved-*")).rename(bench.path)
    with closing(sqlite3.connect(bench.path)) as connection:
        connection.execute("SELECT count(*) FROM servers_box").fetchone()
        assert f"in use by {os.getpid()}" in bench.move()
    with (bench.path.parent / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "Stop it first" in bench.move()
    elsewhere = MOVE.format(url="nonsense://x") + "move()"
    assert "no address of a PostgreSQL" in databases.run(elsewhere, bench.source)
