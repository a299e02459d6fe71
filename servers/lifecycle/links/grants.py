"""Grants: what a box's role may do with each table of the hub's database.

A box reads what its engines need and writes what it sees. The role may do no more than stands
here, whatever the code on the box asks for: who has taken over a box has its role. Which rows it may write: servers.lifecycle.links.own_rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.apps import apps
from django.db import connection, transaction
from django.db.models import Field, Model
from psycopg import sql

from servers.lifecycle.links import own_rows

PREFIX = "box_"

type Columns = tuple[str, ...]

ALL: Columns = ("*",)
NONE: Columns = ()


@dataclass(frozen=True, kw_only=True)
class TableGrant:
    """Columns by what may be done with them. A list of columns does not grow by itself: what a
    migration adds to such a table stays hidden until somebody has thought of it."""

    select: Columns = NONE
    insert: Columns = NONE
    update: Columns = NONE
    delete: bool = False


_NOTHING = TableGrant()
_READ = TableGrant(select=ALL)
# What a box sees and does: rows of its own work.
_OWN = TableGrant(select=ALL, insert=ALL, update=ALL, delete=True)
_KEPT = TableGrant(select=ALL, insert=ALL, update=ALL)

GRANTS: dict[str, TableGrant] = {
    # Who people are, so that rows can name them; nothing by which they log in, and no address.
    "servers_user": TableGrant(
        select=(
            *("id", "username", "first_name", "last_name", "is_active", "is_staff"),
            *("is_superuser", "date_joined", "role"),
        )
    ),
    "servers_user_groups": _NOTHING,
    "servers_user_user_permissions": _NOTHING,
    "servers_loginfailure": _NOTHING,
    "servers_invite": _NOTHING,
    "servers_key": _NOTHING,
    "servers_dismissal": _NOTHING,
    "servers_activeuser": _NOTHING,
    # Nobody changes or takes back what was noted.
    "servers_auditentry": TableGrant(select=ALL, insert=ALL),
    # Values are sealed to a box each, in copies.
    "servers_secret": TableGrant(
        select=("id", "name", "created_by_id", "created_at"),
        insert=("name", "sealed", "created_by_id", "created_at"),
    ),
    "servers_secretcopy": TableGrant(select=ALL, insert=ALL),
    "servers_registrycredential": TableGrant(
        select=(
            *("id", "registry", "username", "created_by_id", "created_at", "tested_at"),
            *("test_wanted_at", "tested_on_id", "error"),
        ),
        update=("tested_at", "tested_on_id", "error"),
    ),
    "servers_boxinvitation": _NOTHING,
    "servers_boxlink": TableGrant(
        select=(
            *("id", "box_id", "name", "hostname", "machine_id", "version", "schema"),
            *("clock_offset", "public_key", "seal_key", "port", "asked_at", "joined_at"),
            *("refused_at", "revoked_at", "told_at"),
        ),
        update=("hostname", "version", "schema", "clock_offset", "told_at"),
    ),
    # What a box of another version opens, besides django_migrations and the row of its link.
    "servers_boxupgrade": TableGrant(
        select=ALL, update=("step", "moved_at", "has", "percent", "said", "is_open")
    ),
    # Its name and its token are the hub's.
    "servers_box": TableGrant(
        select=ALL,
        update=(
            *("home", "hf_cache", "seen_at", "boot_id", "booted_at", "facts", "memory_best"),
            "left_behind",
        ),
    ),
    "servers_boxobservation": _OWN,
    "servers_reboot": TableGrant(select=ALL, insert=ALL, update=("after",)),
    "servers_claim": TableGrant(select=ALL, update=("ended_at",)),
    # A box makes profiles of engines that it has found.
    "servers_profile": TableGrant(select=ALL, insert=ALL, update=("saves", "current_id")),
    "servers_profile_fans": _NOTHING,
    "servers_profileversion": TableGrant(select=ALL, insert=ALL),
    "servers_preset": _READ,
    "servers_environmentgroup": _READ,
    "servers_environmentversion": _READ,
    "servers_profileimport": _KEPT,
    "servers_externalengine": _OWN,
    "servers_server": TableGrant(
        select=ALL,
        insert=ALL,
        update=("run_id", "watches", "took_over", "held_back_by_id", "removed_at"),
    ),
    "servers_server_fans": _NOTHING,
    "servers_run": _KEPT,
    "servers_run_waits_for": _OWN,
    "servers_runplan": _KEPT,
    "servers_runstart": _KEPT,
    "servers_runlog": _KEPT,
    "servers_runhealth": _KEPT,
    "servers_logchunk": _OWN,
    "servers_historychunk": _OWN,
    "servers_figureschunk": _OWN,
    "servers_alert": _KEPT,
    # The hub sends them: addresses and keys of channels stay there.
    "servers_notification": TableGrant(select=ALL, insert=ALL),
    "servers_notificationchannel": TableGrant(
        select=(
            *("id", "name", "kind", "box_id", "owner_id", "least", "kinds", "is_enabled"),
            *("created_by_id", "created_at", "tried_at", "delivered_at", "error"),
        )
    ),
    "servers_notificationchoices": TableGrant(select=("id", "person_id", "browser", "mail")),
    "servers_job": _KEPT,
    "servers_joblog": _OWN,
    "servers_benchmark": _KEPT,
    "servers_benchmarkpoint": _OWN,
    "servers_canary": _KEPT,
    "servers_upgradetrial": TableGrant(select=ALL, update=ALL),
    "servers_imagefacts": _OWN,
    "servers_storedimage": _OWN,
    "servers_tagnews": _OWN,
    "servers_storedcheckpoint": _OWN,
    "servers_checkpointfacts": _OWN,
    # When models were asked, and how long it took: check-ups give way to that, and replay it.
    "servers_request": TableGrant(
        select=(
            *("id", "at", "key_id", "person_id", "run_id", "source", "server", "model", "path"),
            *("status", "cancelled", "first", "duration", "prompt_tokens", "cached_tokens"),
            "completion_tokens",
        )
    ),
    "servers_usage": _NOTHING,
    "servers_legacyport": _NOTHING,
    "servers_capture": _NOTHING,
    "servers_capturedcall": _NOTHING,
    "servers_conversation": _NOTHING,
    "servers_chatmessage": _NOTHING,
    "servers_promptset": _NOTHING,
    "servers_promptrun": _NOTHING,
    "servers_promptanswer": _NOTHING,
    "auth_group": _NOTHING,
    "auth_group_permissions": _NOTHING,
    "auth_permission": _NOTHING,
    "django_content_type": _NOTHING,
    "django_session": _NOTHING,
    # Of which version the hub is.
    "django_migrations": _READ,
}
# A container that was started for a run whose row is gone gets its number back.
SEQUENCES = ("servers_run_id_seq",)


def list_roles() -> set[str]:
    """Those of boxes that the database has."""
    if connection.vendor != "postgresql":
        return set()
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolname FROM pg_roles WHERE rolname ~ %s", [f"^{PREFIX}[0-9]+$"])
        return {name for (name,) in cursor.fetchall()}


def keep_role(role: str, password: str) -> None:
    """Make the role, or give it this password, and exactly the grants of now."""
    # First: there is no role yet that they would have to hold back.
    own_rows.keep_policies()
    with transaction.atomic(), connection.cursor() as cursor:
        # One at a time: two who change the same rights at once disturb each other.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('inferdash box roles'))")
        # Of a role that is there, only a superuser may say these, and in containers we are none.
        begin = (
            "ALTER ROLE {}"
            if role in list_roles()
            else "CREATE ROLE {} NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION"
        )
        cursor.execute(
            sql.SQL(begin + " LOGIN CONNECTION LIMIT 60 PASSWORD {}").format(
                sql.Identifier(role), sql.Literal(_hash(role, password))
            )
        )
        for statement in _list_statements(role, connection.settings_dict["NAME"]):
            cursor.execute(statement)


def drop_role(role: str) -> None:
    """End its sessions and remove it; nothing where it is gone already."""
    if role not in list_roles():
        return
    name = sql.Identifier(role)
    with connection.cursor() as cursor:
        # First: whoever comes between is ended below.
        cursor.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(name))
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = %s",
            [role],
        )
        with transaction.atomic():
            cursor.execute(sql.SQL("DROP OWNED BY {}").format(name))
            cursor.execute(sql.SQL("DROP ROLE {}").format(name))


def _hash(role: str, password: str) -> str:
    """SCRAM's verifier: the password itself stands in no statement, and so in no log."""
    connection.ensure_connection()
    made = connection.connection.pgconn.encrypt_password(
        password.encode(), role.encode(), b"scram-sha-256"
    )
    return str(made.decode())


def _list_statements(role: str, database: str) -> Iterator[sql.Composed]:
    who = sql.Identifier(role)
    tables = set(connection.introspection.table_names())
    yield sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {}").format(who)
    yield sql.SQL("REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM {}").format(who)
    yield sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(database), who)
    yield sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(who)
    for name, grant in GRANTS.items():
        if name not in tables:
            continue
        parts = [
            _name_columns(verb, columns)
            for verb, columns in (
                ("SELECT", grant.select),
                ("INSERT", grant.insert),
                ("UPDATE", grant.update),
            )
            if columns
        ]
        if grant.delete:
            parts.append(sql.SQL("DELETE"))
        if parts:
            yield sql.SQL("GRANT {} ON {} TO {}").format(
                sql.SQL(", ").join(parts), sql.Identifier(name), who
            )
    for name in SEQUENCES:
        yield sql.SQL("GRANT USAGE, UPDATE ON SEQUENCE {} TO {}").format(sql.Identifier(name), who)


def _name_columns(verb: str, columns: Columns) -> sql.Composable:
    if columns == ALL:
        return sql.SQL(verb)
    return sql.SQL("{} ({})").format(
        sql.SQL(verb), sql.SQL(", ").join(map(sql.Identifier, columns))
    )


def list_models() -> list[type[Model]]:
    return [
        each
        for each in apps.get_models(include_auto_created=True)
        if each._meta.managed and not each._meta.proxy
    ]


def leave_out_hidden_columns() -> None:
    """Have this process, which is a box's, never ask for a column that its role may not read.

    Queries for whole rows go on as they are: such a column is empty in them.
    """
    for model in list_models():
        grant = GRANTS.get(model._meta.db_table, _NOTHING)
        if grant.select in (ALL, NONE):
            continue
        for field in model._meta.local_concrete_fields:
            if field.column not in grant.select:
                vars(field)["select_format"] = partial(_select_nothing, field)


def _select_nothing(
    field: "Field[Any, Any]", compiler: Any, statement: str, params: Any
) -> tuple[str, tuple[Any, ...]]:
    return f"CAST(NULL AS {field.db_type(compiler.connection)})", ()
