"""Servers that a person has first, and notices that a person has dismissed."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("servers", "0069_name_of_checkpoints")]

    operations = [
        migrations.AddField(
            model_name="server",
            name="fans",
            field=models.ManyToManyField(
                blank=True, related_name="favourite_servers", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.CreateModel(
            name="Dismissal",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("mark", models.CharField(max_length=300)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="dismissals",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("by", "mark"), name="one_dismissal_a_notice"
                    )
                ],
            },
        ),
    ]
