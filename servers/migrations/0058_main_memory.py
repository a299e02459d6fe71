from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('servers', '0057_claims'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='oom',
            field=models.JSONField(default=dict),
        ),
    ]
