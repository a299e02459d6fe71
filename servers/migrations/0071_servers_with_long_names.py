"""Room for the name of any server: a slug has up to 80 characters."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("servers", "0070_favourite_servers")]

    operations = [
        migrations.AlterField(
            model_name=name,
            name="server",
            field=models.CharField(blank=True, max_length=80),
        )
        for name in ("request", "usage")
    ]
