"""What was read through links before the upgrade goes with it."""

import json
from pathlib import Path

import pytest

from tests import databases
from tests.files.hostile import COMMIT, SECRET

CODE = f"""
import json
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from tests import old_rows

call_command("migrate", "servers", "0054_asleep", verbosity=0)
loader = MigrationLoader(connection, replace_migrations=False)
old = loader.project_state([("servers", "0054_asleep")]).apps
old_rows.fill(old)
def rows(name, apps=old):
    return apps.get_model("servers", name).objects

rows("StoredCheckpoint").update(texts={{"README.md": {SECRET!r}}}, config={{"auths": {SECRET!r}}})
facts = rows("CheckpointFacts")
facts.update(source="/mnt/m", remote="", config={{"a": {SECRET!r}}})
hub = facts.get()
hub.pk, hub.source, hub.remote, hub.config = None, "a/b@main", "open", {{"a": "of the Hub"}}
hub.save()
run = rows("Run").get()
commits = {{"leaked": {SECRET!r}, "good": {COMMIT!r}, "none": "", "short": "c0ffee"}}
for name, commit in commits.items():
    run.pk, run.state, run.container_was, run.checkpoint_revision = None, "failed", name, commit
    run.save()
call_command("migrate", "servers", "0055_files_are_read_anew", verbosity=0)
told = {{
    "stored": list(rows("StoredCheckpoint").values_list("texts", "config")),
    "looked_at": list(rows("Stock").values_list("looked_at", flat=True)),
    "sources": list(facts.values_list("source", flat=True)),
    "commits": dict(
        rows("Run").filter(container_was__in=commits)
        .values_list("container_was", "checkpoint_revision")
    ),
}}
print(json.dumps(told))
"""


@pytest.mark.migrations
@pytest.mark.takes(60)
def test_texts_configs_and_commits_of_before_are_purged(tmp_path: Path) -> None:
    with databases.database(databases.SQLITE, tmp_path) as environment:
        told = json.loads(databases.run(CODE, environment))

    assert told == {
        "stored": [[{}, None]],
        "looked_at": [None],  # and everything is looked at again
        "sources": ["a/b@main"],
        "commits": {"leaked": "", "good": COMMIT, "none": "", "short": ""},
    }
