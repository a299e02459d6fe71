"""The kinds of alerts by a function: a new one changes no table."""

from django.db import migrations, models

import servers.models.alerts


class Migration(migrations.Migration):
    dependencies = [("servers", "0065_jobs")]

    operations = [
        migrations.AlterField(
            model_name="alert",
            name="kind",
            field=models.CharField(
                choices=servers.models.alerts.list_alert_kinds, max_length=20
            ),
        )
    ]
