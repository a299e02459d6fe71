"""The names by which a box knows its inventories, and theirs: no table changes."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("servers", "0067_pulls_of_starts")]

    operations = [
        migrations.AlterModelOptions(
            name="imageinventory", options={"verbose_name_plural": "image inventories"}
        ),
        migrations.AlterModelOptions(
            name="modelinventory", options={"verbose_name_plural": "model inventories"}
        ),
        migrations.AlterField(
            model_name="imageinventory",
            name="box",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="image_inventory",
                to="servers.box",
            ),
        ),
        migrations.AlterField(
            model_name="modelinventory",
            name="box",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="model_inventory",
                to="servers.box",
            ),
        ),
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
