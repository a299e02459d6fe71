"""What watchers saw of their boxes, in one table."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

# Kind, the table before, and its columns: "data" holds the rest.
OLD = (
    ("images", "ImageInventory", {"wanted_at": "wanted_at", "looked_at": "looked_at", "changed_at": "changed_at", "trouble": "error"}, ("layers",)),
    ("tags", "ImageInventory", {"wanted_at": "news_wanted_at", "looked_at": "news_at"}, ()),
    ("models", "ModelInventory", {"wanted_at": "wanted_at", "looked_at": "looked_at"}, ("roots",)),
    ("host", "HostResources", {"looked_at": "seen_at"}, ("found", "images")),
    ("others", "OtherWorkloads", {"looked_at": "looked_at", "trouble": "trouble"}, ("containers", "images", "unseen")),
)  # fmt: skip
KINDS = [(kind, kind.title()) for kind, *_ in OLD]
PROXIES = ("ImageInventory", "TagChecks", "ModelInventory", "HostResources", "OtherWorkloads")


def to_observations(apps, editor):
    db = editor.connection.alias
    observations = apps.get_model("servers", "BoxObservation").objects.using(db)
    for kind, table, columns, data in OLD:
        for row in apps.get_model("servers", table).objects.using(db).order_by("pk"):
            values = {new: getattr(row, old) for new, old in columns.items()}
            seen = {name: getattr(row, name) for name in data}
            if kind == "models":
                seen["looking_since"] = row.looking_since.isoformat() if row.looking_since else ""
            observations.create(box_id=row.box_id, kind=kind, data=seen, **values)
    settle(editor)


def from_observations(apps, editor):
    db = editor.connection.alias
    observations = apps.get_model("servers", "BoxObservation").objects.using(db)
    for kind, table, columns, data in OLD:
        old_rows = apps.get_model("servers", table).objects.using(db)
        for observation in observations.filter(kind=kind).order_by("pk"):
            values = {old: getattr(observation, new) for new, old in columns.items()}
            values |= {name: observation.data[name] for name in data if name in observation.data}
            if kind == "models":
                values["looking_since"] = observation.data.get("looking_since") or None
            # A moment that the table before had to have.
            values = {name: value for name, value in values.items() if value is not None}
            old_rows.update_or_create(box_id=observation.box_id, defaults=values)
    settle(editor)


def settle(editor):
    """PostgreSQL changes no table while rows of it are still to be checked."""
    if editor.connection.vendor == "postgresql":
        editor.execute("SET CONSTRAINTS ALL IMMEDIATE")


class Migration(migrations.Migration):
    dependencies = [("servers", "0067_pulls_of_starts")]

    operations = [
        migrations.CreateModel(
            name="BoxObservation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(choices=KINDS, max_length=10)),
                ("wanted_at", models.DateTimeField(null=True)),
                ("looked_at", models.DateTimeField(null=True)),
                ("changed_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("trouble", models.TextField(blank=True)),
                ("data", models.JSONField(default=dict)),
                (
                    "box",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="observations",
                        to="servers.box",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            "boxobservation",
            models.UniqueConstraint(fields=["box", "kind"], name="one_observation_a_kind"),
        ),
        migrations.RunPython(to_observations, from_observations),
        *(migrations.DeleteModel(name) for name in PROXIES if name != "TagChecks"),
        *(
            migrations.CreateModel(name, [], {"proxy": True}, ("servers.boxobservation",))
            for name in PROXIES
        ),
    ]
