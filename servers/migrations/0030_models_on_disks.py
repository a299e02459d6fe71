import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("servers", "0029_starts_that_wait"),
    ]

    operations = [
        migrations.AddField(
            model_name="box",
            name="model_folders",
            field=models.TextField(blank=True, max_length=4000, verbose_name="Folders with models"),
        ),
        migrations.CreateModel(
            name="Stock",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("wanted_at", models.DateTimeField(null=True)),
                ("looking_since", models.DateTimeField(null=True)),
                ("looked_at", models.DateTimeField(null=True)),
                ("roots", models.JSONField(default=list)),
                (
                    "box",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stock",
                        to="servers.box",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "stock",
            },
        ),
        migrations.CreateModel(
            name="StoredCheckpoint",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("path", models.CharField(max_length=1000)),
                ("name", models.CharField(max_length=300)),
                ("is_hub", models.BooleanField(default=False)),
                ("revision", models.CharField(blank=True, max_length=64)),
                ("refs", models.JSONField(default=list)),
                ("format", models.CharField(blank=True, max_length=12)),
                ("weights", models.BigIntegerField()),
                ("size", models.BigIntegerField()),
                ("files", models.PositiveIntegerField()),
                ("state", models.CharField(max_length=16)),
                ("because", models.CharField(blank=True, max_length=500)),
                ("missing", models.BigIntegerField(null=True)),
                ("fingerprint", models.CharField(blank=True, max_length=32)),
                ("config", models.JSONField(null=True)),
                ("is_adapter", models.BooleanField(default=False)),
                ("changed_at", models.DateTimeField()),
                ("texts", models.JSONField(default=dict)),
                ("licence", models.CharField(blank=True, max_length=100)),
                (
                    "box",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="stored",
                        to="servers.box",
                    ),
                ),
            ],
            options={
                "ordering": ["name", "path"],
            },
        ),
        migrations.AddConstraint(
            model_name="storedcheckpoint",
            constraint=models.UniqueConstraint(
                fields=("box", "path"), name="one_stored_checkpoint_a_path"
            ),
        ),
    ]
