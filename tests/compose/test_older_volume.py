"""A database that an older inferdash made as the superuser goes on, and the superuser shuts."""

import json

import pytest

from tests.compose.installation import SHELL, Compose, project

pytestmark = [pytest.mark.compose, pytest.mark.docker, pytest.mark.takes(120)]

OLDER = ("-f", "docker-compose.yml", "-f", "tests/compose/older.yml")
OWNERS = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("select pg_get_userbyid(relowner), count(*) from pg_class "
                   "where relnamespace = 'public'::regnamespace group by 1 order by 1")
    print(json.dumps([dict(cursor.fetchall()), list(User.objects.values_list("username", flat=True))]))
"""


def ask(compose: Compose, *files: str, code: str) -> str:
    run = ("run", "--rm", "--no-deps", "-T", "migrate", "python", "-c", SHELL + code)
    # Compose 1.29 cannot run another one beside the service's own container on the host's network.
    compose(*files, "rm", "--force", "--stop", "migrate")
    return compose(*files, *run).strip()


def test_tables_of_the_superuser_become_those_of_the_role(docker_host: str) -> None:
    with project(docker_host) as compose:
        compose(*OLDER, "up", "-d", "postgres")
        wait = (
            "exec",
            "-T",
            "postgres",
            "sh",
            "-c",
            "until psql -h /var/run/postgresql -U inferdash -d inferdash -qc 'select 1'; do sleep 0.2; done",
        )
        compose(*OLDER, *wait)
        compose(*OLDER, "run", "--rm", "--no-deps", "-T", "migrate")
        made = "User.objects.create(username='ada')\n"
        before, people = json.loads(ask(compose, *OLDER, code=made + OWNERS))
        assert (set(before), people) == ({"inferdash"}, ["ada"])

        for _again in range(2):  # the second time there is nothing to do
            compose("up", "-d", "migrate")
            after, people = json.loads(ask(compose, code=OWNERS))
            assert (after, people) == ({"inferdash_app": before["inferdash"]}, ["ada"])
        # Whoever goes back to the older one finds all there.
        compose(*OLDER, "up", "-d", "postgres")
        compose(*OLDER, *wait)
        assert json.loads(ask(compose, *OLDER, code=OWNERS))[1] == ["ada"]
