"""A backup is of one moment, and moves from SQLite to PostgreSQL and back."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import databases

FILL = """
from servers.launch.engines.launch import Launch
ada = User.objects.create(username="ada", role=Role.ADMIN)
box = Box.objects.create(slug="rtx8", home="/home/ada")
for number in range(3):
    profile = Profile.objects.create(slug=f"p{number}", name="Qwen – ünïcode ✓", owner=ada)
    launch = Launch(engine="vllm", image="vllm/vllm-openai:v0.20.2", checkpoint="Qwen/Qwen3-8B")
    profile.save_version(launch, by=ada, message="First version")
    Server.objects.create(slug=f"s{number}", profile=profile, box=box)
Secret.seal("HF_TOKEN", "hf_verysecret", ada)
"""
TAKE = """
from pathlib import Path
from servers.lifecycle.people import backup
backup.take(Path({path!r}), passphrase="several words")
"""
RESTORE = """
import json
from pathlib import Path
from django.conf import settings
from servers.launch.engines.launch import Launch
from servers.lifecycle.people import backup
from servers.lifecycle.people import restore as restoring
settings.BOX = "rtx8"
restoring.restore(restoring.check(backup.read_archive(Path({path!r})), passphrase="several words"), replace=True)
last = max(Profile.objects.values_list("pk", flat=True))
made = Profile.objects.create(slug="new", name="New")
made.save_version(Launch(engine="vllm", image="x", checkpoint="y"), by=None)
print(json.dumps({{
    "servers": [each.profile.name for each in Server.objects.order_by("slug")],
    "secret": Secret.objects.get().reveal(),
    "last": last,
    "next": made.pk,
}}))
made.delete()
"""
DURING = """
import threading
from pathlib import Path
from django.db import connection
from servers.lifecycle.people import backup

rows_of, begun, changed = backup._row, threading.Event(), threading.Event()

def change():
    begun.wait()
    User.objects.create(username="grace")
    Server.objects.all().delete()
    changed.set()
    connection.close()

def slowly(table, of):
    if table.name == "people":
        begun.set()
        changed.wait(0.5 if connection.vendor == "sqlite" else 30)
    return rows_of(table, of)

backup._row = slowly
other = threading.Thread(target=change)
other.start()
backup.take(Path({path!r}), passphrase="")
other.join()
found = backup.read_archive(Path({path!r})).rows
print([len(found["people"]), len(found["servers"])])
"""


KINDS = (databases.SQLITE, databases.POSTGRESQL)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """The environment of each, filled alike."""
    with (
        databases.database(KINDS[0], tmp_path_factory.mktemp("sqlite")) as sqlite,
        databases.database(KINDS[1], tmp_path_factory.mktemp("postgresql")) as postgresql,
    ):
        for environment in (sqlite, postgresql):
            databases.run(FILL, environment)
        yield dict(zip(KINDS, (sqlite, postgresql), strict=True))


@pytest.mark.parametrize(("kind", "other"), [KINDS, KINDS[::-1]])
def test_a_backup_of_one_database_is_restored_into_the_other(
    kind: str, other: str, places: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    path = str(tmp_path / "a.inferdash")
    databases.run(TAKE.format(path=path), places[kind])

    found = json.loads(databases.run(RESTORE.format(path=path), places[other]))

    assert found["servers"] == ["Qwen – ünïcode ✓"] * 3
    assert found["secret"] == "hf_verysecret"
    assert found["next"] > found["last"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_changes_while_it_is_taken_is_in_it_whole_or_not_at_all(
    kind: str, places: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    said = databases.run(DURING.format(path=str(tmp_path / "b.inferdash")), places[kind])

    assert said.strip() == "[1, 3]"
