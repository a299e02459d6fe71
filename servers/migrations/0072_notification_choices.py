"""The choice of each person of what to be notified of, and their own mail channel."""

import django.db.models.deletion
import servers.models.alerts.choices
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("servers", "0071_servers_with_long_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="alert",
            name="told_at",
            field=models.DateTimeField(db_index=True, null=True),
        ),
        migrations.AddField(
            model_name="notificationchannel",
            name="owner",
            field=models.OneToOneField(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="notification_channel",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.CreateModel(
            name="NotificationChoices",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "browser",
                    models.JSONField(default=servers.models.alerts.choices.list_usual_topics),
                ),
                ("mail", models.JSONField(default=list)),
                ("address", models.EmailField(blank=True, max_length=254)),
                (
                    "person",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notification_choices",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
    ]
