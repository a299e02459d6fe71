"""A start waits for a pull that is a job; one that is pulling now asks for it anew."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("servers", "0066_kinds_of_alerts")]

    operations = [
        migrations.RemoveField("runstart", "pulled"),
        migrations.RemoveField("runstart", "pull_total"),
        migrations.AddField(
            "runstart",
            "pull",
            models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="servers.imagejob",
            ),
        ),
    ]
