from django.db import migrations, models

NAMES = (
    ("imagejob", "is_unwanted", "cancel_requested"),
    ("imagejob", "put_away", "dismissed"),
    ("notification", "outlet", "channel"),
    ("run", "heard_at", "last_output_at"),
    ("run", "outlook", "status_message"),
    ("run", "slept", "sleep_info"),
    ("run", "strained", "memory_warning"),
    ("run", "unheld_at_start", "unattributed_at_start"),
)


class Migration(migrations.Migration):
    dependencies = [("servers", "0061_names_of_tables")]
    operations = [
        migrations.RemoveConstraint("notification", "one_delivery_an_alert_and_outlet"),
        *(migrations.RenameField(model, old, new) for model, old, new in NAMES),
        migrations.AddConstraint(
            "notification",
            models.UniqueConstraint(
                fields=["alert", "channel", "what"], name="one_notification_an_alert_and_channel"
            ),
        ),
    ]
