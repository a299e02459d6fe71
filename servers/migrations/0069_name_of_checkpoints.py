"""The name by which a box knows the checkpoints on its disks: no table changes."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("servers", "0068_observations_of_boxes")]

    operations = [
        migrations.AlterField(
            model_name="storedcheckpoint",
            name="box",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="checkpoints",
                to="servers.box",
            ),
        ),
    ]
