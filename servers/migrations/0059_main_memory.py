from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('servers', '0056_exact_command'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='oom',
            field=models.JSONField(default=dict),
        ),
    ]
