from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("servers", "0046_usage"),
    ]

    operations = [
        migrations.AlterField(
            model_name="alert",
            name="kind",
            field=models.CharField(
                choices=[
                    ("failed", "start failed"),
                    ("died", "died"),
                    ("unhealthy", "unhealthy"),
                    ("ready", "ready after a long start"),
                    ("leaked", "memory leaked"),
                    ("residual", "memory left behind"),
                    ("floor", "little memory left"),
                    ("thermal", "temperature"),
                    ("disk", "disk"),
                    ("hardware", "hardware"),
                    ("download", "download failed"),
                    ("pull", "image pull failed"),
                    ("box", "box lacks something"),
                    ("silent", "box silent"),
                ],
                max_length=20,
            ),
        ),
    ]
