"""What a box may do with the hub's database, tried as its role."""

from collections.abc import Iterator

import psycopg
import pytest
from django.apps import apps
from psycopg import sql

from servers.lifecycle.links.grants import ALL, GRANTS, NONE, Columns
from servers.lifecycle.links.own_rows import OWN_ROWS
from tests import databases
from tests.cases import Cases

KEEP = """
from servers.launch.engines.launch import Launch
from servers.lifecycle.links import grants
for number, slug in ((1, "milo"), (2, "otis")):
    box = Box.objects.create(pk=number, slug=slug)
    BoxLink.objects.create(pk=number, box=box, name=slug, public_key=slug, seal_key="x")
    profile = Profile.objects.create(pk=number, slug=slug, name=slug)
    version = profile.save_version(Launch(engine="vllm", image="x", checkpoint="y"), by=None)
    server = Server.objects.create(pk=number, slug=slug, profile=profile, box=box)
    run = Run.objects.create(pk=number, server=server, version=version, state=RunState.STOPPED)
    Server.objects.filter(pk=number).update(run=run)
    Alert.objects.create(
        pk=number, box=box, kind="silent", severity="error", title="x", raised_at=timezone.now()
    )
grants.keep_role("box_1", "of the box")
grants.keep_role("box_1", "another one")
grants.keep_role("box_2", "of another box")
print(sorted(grants.list_roles()))
"""
# Whatever GRANTS says: no box may read or change these.
SECRET = {
    "servers_user": {"password", "email", "last_login"},
    "servers_key": {"digest", "start", "name"},
    "servers_invite": {"token_hash"},
    "servers_secret": {"sealed"},
    "servers_registrycredential": {"sealed"},
    "servers_notificationchannel": {"sealed_address", "sealed_key", "hint"},
    "servers_notificationchoices": {"address"},
    "servers_boxlink": {"sealed_password", "sealed_relay_secret", "words"},
    "servers_boxinvitation": {"public_key", "ident"},
    "servers_conversation": {"title", "token", "params"},
    "servers_chatmessage": {"body", "text"},
    "servers_capturedcall": {"asked", "answered"},
    "servers_promptset": {"prompts"},
    "servers_promptanswer": {"body"},
    "servers_request": {"error"},
    "django_session": {"session_key", "session_data"},
}
UNTOUCHED = (
    *("servers_user", "servers_key", "servers_invite", "servers_boxinvitation", "servers_usage"),
    *("servers_legacyport", "servers_environmentgroup", "servers_environmentversion"),
    *("servers_notificationchannel", "servers_loginfailure", "auth_group", "django_migrations"),
    *("servers_user_groups", "servers_user_user_permissions", "django_session"),
)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("grants")
    with databases.database(databases.POSTGRESQL, folder) as environment:
        assert databases.run(KEEP, environment).strip() == "['box_1', 'box_2']"
        yield environment


@pytest.fixture
def as_box(environment: dict[str, str]) -> Iterator[psycopg.Connection]:
    with psycopg.connect(_address_of("box_1", environment), autocommit=True) as connection:
        yield connection


def _address_of(role: str, environment: dict[str, str]) -> str:
    return environment["DATABASE_URL"].replace("//tests@", f"//{role}@")


def test_every_table_and_column_stands_in_the_list() -> None:
    models = apps.get_models(include_auto_created=True)
    columns = {each._meta.db_table: set[str]() for each in models}
    for each in models:
        columns[each._meta.db_table] |= {str(field.column) for field in each._meta.concrete_fields}

    assert GRANTS.keys() == columns.keys() | {"django_migrations"}
    for name, grant in GRANTS.items():
        for listed in (grant.select, grant.insert, grant.update):
            assert listed == ALL or set(listed) <= columns.get(name, set()), name
    for name, hidden in SECRET.items():
        assert hidden <= columns[name], name
        assert not hidden & set(GRANTS[name].select), name
        assert GRANTS[name].select != ALL, name
    for name in UNTOUCHED:
        grant = GRANTS[name]
        assert (grant.insert, grant.update, grant.delete) == (NONE, NONE, False), name


def test_a_boxs_role_may_exactly_what_the_list_says(as_box: psycopg.Connection) -> None:
    found = as_box.execute(
        "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c"
        " JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = 'public'::regnamespace"
        " AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, a.attnum"
    ).fetchall()
    tables = {name for name, _column, _type in found}
    assert tables == GRANTS.keys()
    with Cases() as cases:
        for table, column, kind in found:
            grant = GRANTS[table]
            # Tried where no row is meant: rights are looked at all the same.
            for verb, columns, text in (
                ("select", grant.select, "SELECT {column} FROM {table} WHERE false"),
                (
                    "insert",
                    grant.insert,
                    f"INSERT INTO {{table}} ({{column}}) SELECT CAST(NULL AS {kind}) WHERE false",
                ),
                ("update", grant.update, "UPDATE {table} SET {column} = NULL WHERE false"),
            ):
                with cases.named(f"{verb} {table}.{column}"):
                    assert _may(as_box, text, table, column) == _is_in(column, columns)
        for table in tables:
            with cases.named(f"delete {table}"):
                text = "DELETE FROM {table} WHERE false"
                assert _may(as_box, text, table, "") == GRANTS[table].delete
    assert cases.count > 2000


def _is_in(column: str, columns: Columns) -> bool:
    return columns == ALL or column in columns


def _may(connection: psycopg.Connection, text: str, table: str, column: str) -> bool:
    statement = sql.SQL(text).format(
        table=sql.Identifier(table), column=sql.Identifier(column or "id")
    )
    try:
        connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def test_a_box_writes_rows_of_its_own_alone(as_box: psycopg.Connection) -> None:
    written = {name for name, each in GRANTS.items() if each.insert or each.update or each.delete}
    assert written - OWN_ROWS.keys() == {
        *("servers_auditentry", "servers_secret", "servers_registrycredential"),
        *("servers_notification", "servers_profileversion"),
    }
    assert OWN_ROWS.keys() <= written
    with Cases() as cases:
        for table, column, key in (
            ("servers_box", "home", "id"),
            ("servers_boxlink", "version", "id"),
            ("servers_profile", "saves", "id"),
            ("servers_server", "watches", "id"),
            ("servers_run", "status_message", "id"),
            ("servers_run", "server_id", "id"),
            ("servers_runlog", "gap", "run_id"),
            ("servers_runplan", "values", "run_id"),
            ("servers_alert", "title", "id"),
        ):
            with cases.named(f"{table}.{column}"):
                done = as_box.execute(
                    sql.SQL("UPDATE {table} SET {column} = {column} RETURNING {key}").format(
                        table=sql.Identifier(table),
                        column=sql.Identifier(column),
                        key=sql.Identifier(key),
                    )
                )
                assert done.fetchall() == [(1,)]
        for statement in (
            "UPDATE servers_run SET server_id = 2 WHERE id = 1",
            "INSERT INTO servers_logchunk (run_id, first, count, body, size)"
            " VALUES (2, 1, 1, '', 0)",
            "INSERT INTO servers_joblog (job_id, first, text) VALUES (1, 1, '')",
            "INSERT INTO servers_run_waits_for (from_run_id, to_run_id) VALUES (2, 1)",
        ):
            with (
                cases.named(statement),
                pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"),
            ):
                as_box.execute(statement)
        with cases.named("its own log"):
            as_box.execute(
                "INSERT INTO servers_logchunk (run_id, first, count, body, size)"
                " VALUES (1, 1, 1, '', 0)"
            )
        with cases.named("reads those of others"):
            assert as_box.execute("SELECT count(*) FROM servers_run").fetchone() == (2,)


def test_nothing_else_of_the_server_is_a_boxs(as_box: psycopg.Connection) -> None:
    with Cases() as cases:
        for statement in (
            "CREATE TABLE mine (id int)",
            "CREATE SCHEMA mine",
            "CREATE ROLE mine",
            "ALTER ROLE box_2 PASSWORD 'mine'",
            "ALTER ROLE box_1 SUPERUSER",
            "SET ROLE box_2",
            "SELECT rolpassword FROM pg_authid",
            "SELECT pg_read_file('/etc/passwd')",
            "COPY servers_box TO PROGRAM 'id'",
            "ALTER TABLE servers_box ADD mine int",
            "DROP TABLE servers_run",
            "TRUNCATE servers_logchunk",
            "GRANT SELECT ON servers_user TO box_1",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'tests'",
        ):
            with cases.named(statement), pytest.raises(psycopg.DatabaseError):
                as_box.execute(statement)


def test_a_role_that_is_dropped_is_cut_at_once(environment: dict[str, str]) -> None:
    with psycopg.connect(_address_of("box_2", environment), autocommit=True) as connection:
        connection.execute("SELECT id FROM servers_box")
        code = """
from servers.lifecycle.links import grants
grants.drop_role("box_2")
grants.drop_role("box_2")
print(sorted(grants.list_roles()))
"""
        assert databases.run(code, environment).strip() == "['box_1']"
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT id FROM servers_box")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(_address_of("box_2", environment))
