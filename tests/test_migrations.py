"""Rows of an installation before the tables were renamed are all there afterwards, and on the way back."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests import databases

OLD = "0060_likeness_identity"
# The tables that have become jobs: a kind of each, and its columns that are others now.
JOBS = {
    "servers_action": ("kill", {"details": "params"}),
    "servers_imagejob": (
        "pull",
        {"reference": "target", "is_unwanted": "", "put_away": "dismissed"},
    ),
    "servers_download": (
        "download",
        {"repository": "what", "key": "target", "moved_at": "changed_at"},
    ),
}
# The tables that have become observations of a box: a kind of each, and its columns that stand elsewhere
# than in the column or the data of that name.
OBSERVATIONS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "servers_hostresources": ("host", {"seen_at": ("host", "looked_at")}),
    "servers_imageinventory": (
        "images",
        {
            "error": ("images", "trouble"),
            "news_at": ("tags", "looked_at"),
            "news_wanted_at": ("tags", "wanted_at"),
        },
    ),
    "servers_modelinventory": ("models", {}),
    "servers_otherworkloads": ("others", {}),
}
PULL = ("pulled", "pull_total")
CODE = f"""
import json
from importlib import import_module
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from tests import old_rows

def told(rows):
    return json.loads(json.dumps(rows, default=str))

new = old_rows.describe()
call_command("migrate", "servers", {OLD!r}, verbosity=0)
loader = MigrationLoader(connection, replace_migrations=False)
old_rows.fill(loader.project_state([("servers", {OLD!r})]).apps)
before = told(old_rows.read())
call_command("migrate", verbosity=0)
after = told(old_rows.read())
upgraded = old_rows.describe()
call_command("migrate", "servers", {OLD!r}, verbosity=0)
back = told(old_rows.read())
tables = import_module("servers.migrations.0061_names_of_tables").NAMES
columns = import_module("servers.migrations.0062_names_of_columns").NAMES
moved = import_module("servers.migrations.0064_tables_of_a_run").MOVED
print(json.dumps([before, after, back, tables, columns, moved, new, upgraded]))
"""


@pytest.mark.migrations
@pytest.mark.takes(90)
@pytest.mark.parametrize("kind", [databases.SQLITE, databases.POSTGRESQL])
def test_every_row_is_kept_on_the_way_to_the_new_names_and_back(kind: str, tmp_path: Path) -> None:
    with databases.database(kind, tmp_path) as environment:
        told = json.loads(databases.run(CODE, environment))
    before, after, back, tables, columns, moved, new, upgraded = told

    assert len(before) > 45, "every table has a row"
    # How far a pull was: it is a job now, and begins anew.
    assert [back["servers_run"].pop(name) for name in PULL] == [None, None]
    assert [before["servers_run"].pop(name) for name in PULL] == [2**40, 2**40]
    assert back == before
    assert upgraded == new, "a new database starts with the tables of an upgraded one"
    renamed = {f"servers_{old.lower()}": f"servers_{new.lower()}" for old, new in tables}
    new_columns = {(f"servers_{table}", old): new for table, old, new in columns}
    # Of a run, what stands in a table of its own by now.
    of_run = {old: (f"servers_run{part}", new) for old, part, new in moved}
    for table, row in before.items():
        if table in JOBS:
            check_job(table, row, after)
            continue
        for name, value in row.items():
            stem = name.removesuffix("_id")
            new = new_columns.get((renamed.get(table, table), stem), stem) + name[len(stem) :]
            there = renamed.get(table, table)
            if there == "servers_run" and (place := of_run.get(new.removesuffix("_id"))):
                there, new = place[0], place[1] + new[len(new.removesuffix("_id")) :]
            if there in OBSERVATIONS:
                check_observation(there, new, value, after)
                continue
            assert after[there][new] == value, f"{table}.{name}"


def check_observation(table: str, column: str, value: Any, after: dict[str, Any]) -> None:
    usual, elsewhere = OBSERVATIONS[table]
    kind, name = elsewhere.get(column, (usual, column))
    observation = after[f"servers_boxobservation_{kind}"]
    kept = json.loads(observation["data"])
    if name == "looking_since":
        assert kept[name].startswith(value.replace(" ", "T")), name
    elif name in kept:
        is_json = isinstance(kept[name], list | dict)
        assert kept[name] == (json.loads(value) if is_json else value), f"{table}.{name}"
    elif name != "id":
        assert observation[name] == value, f"{table}.{name}"


def check_job(table: str, row: dict[str, Any], after: dict[str, Any]) -> None:
    kind, columns = JOBS[table]
    job = after[f"servers_job_{kind}"]
    kept = json.loads(job["params"]) | json.loads(job["result"])
    for name, value in row.items():
        column = columns.get(name, name)
        if name == "state" and value == "waiting":
            assert job["state"] == "asked"
        elif column in job and name != "id":
            assert job[column] == value, f"{table}.{name}"
        elif column in kept:
            is_json = isinstance(kept[column], list | dict)
            assert kept[column] == (json.loads(value) if is_json else value), f"{table}.{name}"
        else:
            assert name in ("id", "is_unwanted"), f"{table}.{name}"
    if table == "servers_imagejob":
        assert (job["wanted"], job["what"]) == ("cancelled", row["reference"])
