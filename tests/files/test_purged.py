"""What was read through links before the upgrade goes with it."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps
from django.utils import timezone

from servers.models import CheckpointFacts, ModelInventory, Run, StoredCheckpoint
from tests import factories
from tests.files.hostile import COMMIT, SECRET


class OldNames:
    """The tables of today under the names that the migration knows."""

    @staticmethod
    def get_model(app: str, name: str) -> Any:
        renamed = import_module("servers.migrations.0061_names_of_tables").NAMES
        return apps.get_model(app, dict(renamed).get(name, name))


@pytest.mark.django_db
def test_texts_configs_and_commits_of_before_are_purged() -> None:
    box = factories.box()
    now = timezone.now()
    factories.stored(box, "one", texts={"README.md": SECRET}, config={"auths": SECRET})
    ModelInventory.objects.create(box=box, looked_at=now)
    CheckpointFacts.objects.create(box=box, source="/mnt/m", config={"a": SECRET}, changed_at=now)
    told = {"config": {"a": "of the Hub"}, "remote": "open", "changed_at": now}
    CheckpointFacts.objects.create(box=box, source="a/b@main", **told)
    for name, commit in (("leaked", SECRET), ("good", COMMIT), ("none", ""), ("short", "c0ffee")):
        factories.run(factories.server(box, name, model="qwen3-8b"), checkpoint_revision=commit)

    import_module("servers.migrations.0055_files_are_read_anew").forget(OldNames, None)

    stored = StoredCheckpoint.objects.get()
    assert (stored.texts, stored.config) == ({}, None)
    assert ModelInventory.objects.get().looked_at is None, "and everything is looked at again"
    assert [each.source for each in CheckpointFacts.objects.all()] == ["a/b@main"]
    kept = {run.server.slug: run.start.checkpoint_revision for run in Run.objects.all()}
    assert kept == {"leaked": "", "good": COMMIT, "none": "", "short": ""}
