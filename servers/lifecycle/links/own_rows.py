"""Policies of rows: a box's role writes rows of its own box, and reads those of all.

PostgreSQL looks at them for every role but a superuser, as which the hub comes.
"""

import hashlib
from collections.abc import Iterator

from django.db import connection, transaction

# The box that the role of this session stands for; NULL of any other role.
_FUNCTION = """
CREATE OR REPLACE FUNCTION inferdash_box() RETURNS bigint LANGUAGE sql STABLE
SECURITY DEFINER SET search_path = public, pg_temp AS
$$ SELECT box_id FROM servers_boxlink WHERE 'box_' || id = session_user $$
"""
_OF_BOX = "box_id = inferdash_box()"
# {row}: the table's own name, as a name alone would be looked for in the tables of EXISTS first.
_OF_SERVER = (
    "EXISTS (SELECT 1 FROM servers_server s"
    " WHERE s.id = {row}.server_id AND s.box_id = inferdash_box())"
)
_OF_RUN = (
    "EXISTS (SELECT 1 FROM servers_run r JOIN servers_server s ON s.id = r.server_id"
    " WHERE r.id = {{row}}.{column} AND s.box_id = inferdash_box())"
)
_OF_PARENT = (
    "EXISTS (SELECT 1 FROM {table} p WHERE p.id = {{row}}.{column} AND p.box_id = inferdash_box())"
)

# By table, when a row is the box's own. Of tables that are not here a role may write any row, as
# far as servers.lifecycle.links.grants lets it.
OWN_ROWS: dict[str, str] = {
    "servers_box": "id = inferdash_box()",
    **dict.fromkeys(
        (
            *("servers_boxlink", "servers_boxobservation", "servers_reboot", "servers_claim"),
            *("servers_profileimport", "servers_externalengine", "servers_server"),
            *("servers_alert", "servers_job", "servers_benchmark", "servers_canary"),
            *("servers_upgradetrial", "servers_imagefacts", "servers_storedimage"),
            *("servers_tagnews", "servers_storedcheckpoint", "servers_checkpointfacts"),
            *("servers_historychunk", "servers_figureschunk", "servers_secretcopy"),
            "servers_boxupgrade",
        ),
        _OF_BOX,
    ),
    # Those that it makes, and those that are placed on it alone.
    "servers_profile": (
        "NOT EXISTS (SELECT 1 FROM servers_server s WHERE s.profile_id = {row}.id"
        " AND s.box_id IS DISTINCT FROM inferdash_box())"
    ),
    "servers_run": _OF_SERVER,
    **dict.fromkeys(
        (
            *("servers_runplan", "servers_runstart", "servers_runlog", "servers_runhealth"),
            "servers_logchunk",
        ),
        _OF_RUN.format(column="run_id"),
    ),
    "servers_run_waits_for": _OF_RUN.format(column="from_run_id"),
    "servers_joblog": _OF_PARENT.format(table="servers_job", column="job_id"),
    "servers_benchmarkpoint": _OF_PARENT.format(table="servers_benchmark", column="benchmark_id"),
}


# Beside each table's first policy, so that what is there already is left alone.
_FOUND = """
SELECT c.relname, obj_description(p.oid, 'pg_policy') FROM pg_policy p
JOIN pg_class c ON c.oid = p.polrelid WHERE p.polname = 'box_select'
"""


def keep_policies() -> None:
    """Make them where they are not as they are to be.

    That waits for everybody at a table, so each is a transaction of its own: who held several at
    once would stand in the way of others that want them in another order.
    """
    with connection.cursor() as cursor:
        tables = [each for each in OWN_ROWS if each in connection.introspection.table_names(cursor)]
        cursor.execute(_FUNCTION)
        cursor.execute(_FOUND)
        found = dict(cursor.fetchall())
        for table in tables:
            statements = list(_list_statements(table))
            digest = hashlib.sha256("\n".join(statements).encode()).hexdigest()
            if found.get(table) == digest:
                continue
            with transaction.atomic():
                for statement in statements:
                    cursor.execute(statement)
                cursor.execute(f"COMMENT ON POLICY box_select ON {table} IS '{digest}'")


def _list_statements(table: str) -> Iterator[str]:
    own = OWN_ROWS[table].format(row=table)
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
    for verb, rule in (
        ("SELECT", "USING (true)"),
        ("INSERT", f"WITH CHECK ({own})"),
        ("UPDATE", f"USING ({own}) WITH CHECK ({own})"),
        ("DELETE", f"USING ({own})"),
    ):
        name = f"box_{verb.lower()}"
        yield f"DROP POLICY IF EXISTS {name} ON {table}"
        yield f"CREATE POLICY {name} ON {table} FOR {verb} {rule}"
