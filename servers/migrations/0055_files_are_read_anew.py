"""Texts, configs and commits were read through links until now: some may be of other files."""

import re

from django.db import migrations, models

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_AT_ONCE = 500


def forget(apps, _schema_editor):
    """The watcher reads them again within a minute; what a run was started with is lost."""
    apps.get_model("servers", "StoredCheckpoint").objects.update(texts={}, config=None)
    apps.get_model("servers", "CheckpointFacts").objects.filter(remote="").delete()
    apps.get_model("servers", "Stock").objects.update(looked_at=None)
    runs = apps.get_model("servers", "Run").objects
    said = runs.exclude(checkpoint_revision="").values_list("checkpoint_revision", flat=True)
    wrong = [each for each in said.distinct() if not _COMMIT.fullmatch(each)]
    for at in range(0, len(wrong), _AT_ONCE):
        some = runs.filter(checkpoint_revision__in=wrong[at : at + _AT_ONCE])
        some.update(checkpoint_revision="")


class Migration(migrations.Migration):
    dependencies = [("servers", "0054_asleep")]

    operations = [
        migrations.AddField(
            model_name="storedcheckpoint",
            name="unread",
            field=models.JSONField(default=dict),
        ),
        # Nothing that was purged comes back.
        migrations.RunPython(forget, migrations.RunPython.noop),
    ]
