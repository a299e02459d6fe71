"""The move of all rows from SQLite to PostgreSQL: in one transaction, compared before it counts."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from django.apps import apps
from django.core.management import call_command
from django.core.management.color import no_style
from django.db import Error, connections, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Field, JSONField, Model, TextField
from django.utils import timezone
from psycopg.conninfo import conninfo_to_dict

from servers.host.links.openers import find_openers

SOURCE, TARGET = "move_source", "move_target"
BATCH = 200
TOLD_EVERY = 3.0  # seconds
# Of Django's own, which a migration fills.
_FILLED_BY_MIGRATIONS = ("django_content_type", "auth_permission")

type Tell = Callable[[str], None]
type Row = tuple[Any, ...]


class MoveError(Exception):
    """Why nothing was moved, and what to do."""


@dataclass(frozen=True, kw_only=True)
class TableSum:
    """What a table holds, whatever the order of its rows."""

    rows: int
    digest: int


@dataclass(frozen=True, kw_only=True)
class MoveResult:
    rows: int
    tables: int
    kept: Path  # the old file
    changed: dict[str, int]  # values by column that PostgreSQL cannot keep as they were


def move(path: Path, url: str, tell: Tell) -> MoveResult:
    """Every row of the SQLite file to the PostgreSQL at the URL; the file is renamed at the end.

    Killed at any moment, it leaves the file as it was, and can be run again. Raises MoveError.
    """
    if not path.exists():
        raise MoveError(f"{path} is not there: there is nothing to move.")
    _refuse_while_used(path)
    _connect(path, url)
    try:
        result = _move_rows(path, tell)
    except Error as error:
        raise MoveError(
            f"nothing was moved, and {path} is as it was: {str(error).strip()}"
        ) from error
    finally:
        for alias in (SOURCE, TARGET):
            connections[alias].close()
    _refuse_while_used(path)
    for end in ("-wal", "-shm"):  # empty by now
        path.with_name(path.name + end).unlink(missing_ok=True)
    path.rename(result.kept)
    return result


def _move_rows(path: Path, tell: Tell) -> MoveResult:
    if _count_lacking(SOURCE):
        raise MoveError(
            f"{path} is of an earlier version. Start inferdash once on it, which brings it up to "
            "date, and move it then."
        )
    if _count_lacking(TARGET):
        tell("making the tables")
        call_command("migrate", database=TARGET, interactive=False, verbosity=0)
    models = sort_models()
    changed: dict[str, int] = {}
    # SQLite's transaction begins by locking out all who write.
    with transaction.atomic(using=SOURCE):
        with transaction.atomic(using=TARGET):
            # Nobody else moves at the same time.
            with connections[TARGET].cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(hashtext('inferdash move'))")
            full = _find_full(models)
            before = {each: _sum_up(each, SOURCE) for each in models}
            if not full:
                for table in reversed(_FILLED_BY_MIGRATIONS):
                    with connections[TARGET].cursor() as cursor:
                        cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours
                for model in models:
                    _copy(model, before[model].rows, changed, tell)
                _reset_sequences(models)
            tell("comparing")
            _compare(models, before, full)
        with connections[TARGET].cursor() as cursor:
            cursor.execute("ANALYZE")
    with connections[SOURCE].cursor() as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    stamp = timezone.localtime().strftime("%Y%m%d-%H%M%S")
    return MoveResult(
        rows=sum(each.rows for each in before.values()),
        tables=len(models),
        kept=path.with_name(f"{path.name}.moved-{stamp}"),
        changed=changed,
    )


def _connect(path: Path, url: str) -> None:
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise MoveError(f"{url.split('://', 1)[0]}://… is no address of a PostgreSQL.") from error
    usual = deepcopy(connections["default"].settings_dict)
    common = {"CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": False}
    connections.settings[SOURCE] = {
        **usual,
        **common,
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20},
    }
    known = {
        name: str(parts.pop(name, "")) for name in ("dbname", "user", "password", "host", "port")
    }
    connections.settings[TARGET] = {
        **usual,
        **common,
        "ENGINE": "django.db.backends.postgresql",
        "NAME": known["dbname"],
        "USER": known["user"],
        "PASSWORD": known["password"],
        "HOST": known["host"],
        "PORT": known["port"],
        "OPTIONS": parts,
    }


def _refuse_while_used(path: Path) -> None:
    if users := find_openers(path):
        shown = ", ".join(f"{pid} ({command[:60]})" for pid, command in users[:3])
        raise MoveError(
            f"{path} is in use by {shown}. Stop inferdash first (Ctrl-C where it runs, or systemctl "
            "stop inferdash.target); engines go on running."
        )


def _count_lacking(alias: str) -> int:
    executor = MigrationExecutor(connections[alias])
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def sort_models() -> list[type[Model]]:
    """One of every table, whatever it names before it, as far as tables do not name each other."""
    waiting = [
        each
        for each in apps.get_models(include_auto_created=True)
        if each._meta.managed and not each._meta.proxy
    ]
    done: list[type[Model]] = []
    while waiting:
        ready = [each for each in waiting if _list_needs(each) <= {*done, each}]
        if not ready:
            ready = waiting[:1]
        done += ready
        waiting = [each for each in waiting if each not in ready]
    return done


def _list_needs(model: type[Model]) -> set[type[Model]]:
    needed: set[type[Model]] = set()
    for each in model._meta.concrete_fields:
        named = each.related_model
        if named is not None and not each.null:
            needed.add(named._meta.concrete_model or named)
    return needed


def _find_full(models: list[type[Model]]) -> str:
    """A table of the target that has rows already; "" where all are empty."""
    for model in models:
        table = model._meta.db_table
        if table not in _FILLED_BY_MIGRATIONS and _select(model, TARGET).exists():
            return table
    return ""


def _select(model: type[Model], alias: str) -> Any:
    return model._base_manager.using(alias).order_by("pk")


def _list_fields(model: type[Model]) -> "list[Field[Any, Any]]":
    return list(model._meta.concrete_fields)


def _iterate(model: type[Model], alias: str) -> Iterator[Row]:
    names = [each.attname for each in _list_fields(model)]
    found: Iterator[Row] = _select(model, alias).values_list(*names).iterator(chunk_size=BATCH)
    return found


def _copy(model: type[Model], count: int, changed: dict[str, int], tell: Tell) -> None:
    fields, table = _list_fields(model), model._meta.db_table
    batch: list[Model] = []
    done, told_at = 0, time.monotonic()
    for row in _iterate(model, SOURCE):
        values = {}
        for field, value in zip(fields, row, strict=True):
            kept = fit(field, value)
            if kept != value:
                name = f"{table}.{field.column}"
                changed[name] = changed.get(name, 0) + 1
            values[field.attname] = kept
        batch.append(model(**values))
        if len(batch) == BATCH:
            done += _write(model, batch)
            if time.monotonic() - told_at > TOLD_EVERY:
                told_at = time.monotonic()
                tell(f"{table}: {done} of {count} rows")
    done += _write(model, batch)
    if done:
        tell(f"{table}: {done} rows")


def _write(model: type[Model], batch: list[Model]) -> int:
    count = len(batch)
    model._base_manager.using(TARGET).bulk_create(batch)
    batch.clear()
    return count


def fit(field: "Field[Any, Any]", value: Any) -> Any:
    """The value as PostgreSQL can keep it: its text has no NUL, and no more than its column."""
    if isinstance(field, JSONField):
        return _without_nul(value)
    if isinstance(value, str):
        value = _without_nul(value)
        if not isinstance(field, TextField) and field.max_length:
            return value[: field.max_length]
    return value


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, list):
        return [_without_nul(each) for each in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(each) for name, each in value.items()}
    return value


def _sum_up(model: type[Model], alias: str) -> TableSum:
    fields = _list_fields(model)
    count = total = 0
    for row in _iterate(model, alias):
        shown = [_show(each, value) for each, value in zip(fields, row, strict=True)]
        text = json.dumps(shown, sort_keys=True).encode()
        total += int.from_bytes(hashlib.sha256(text).digest())
        count += 1
    return TableSum(rows=count, digest=total % 2**256)


def _show(field: "Field[Any, Any]", value: Any) -> Any:
    """The same text for the same value of either database."""
    value = fit(field, value)
    if isinstance(value, bytes | memoryview):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(field, JSONField):
        return _show_numbers(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _show_numbers(value: Any) -> Any:
    """jsonb keeps 1e22 as an integer, and knows no negative zero."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_show_numbers(each) for each in value]
    if isinstance(value, dict):
        return {name: _show_numbers(each) for name, each in value.items()}
    return value


def _reset_sequences(models: list[type[Model]]) -> None:
    with connections[TARGET].cursor() as cursor:
        for statement in connections[TARGET].ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)


def _compare(models: list[type[Model]], before: dict[type[Model], TableSum], full: str) -> None:
    for model in models:
        there, here = _sum_up(model, TARGET), before[model]
        if there == here:
            continue
        table = model._meta.db_table
        if full:
            raise MoveError(
                f"the PostgreSQL has rows already (in {full}), and {table} holds others than the "
                "file. Name an empty database, or empty this one: DROP DATABASE, CREATE DATABASE."
            )
        raise MoveError(
            f"{table} did not arrive as it was: {there.rows} of {here.rows} rows, or other values. "
            "Nothing was moved, and the file is as it was. Please report this."
        )
