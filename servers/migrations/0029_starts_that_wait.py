import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('servers', '0028_what_a_box_can_be_asked'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='turn_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='run',
            name='waits',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='run',
            name='waits_for',
            field=models.ManyToManyField(related_name='waited_for_by', to='servers.run'),
        ),
        migrations.AddField(
            model_name='run',
            name='waits_until',
            field=models.DateTimeField(null=True),
        ),
        migrations.CreateModel(
            name='Use',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('by', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='uses', to='servers.run')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'by'), name='one_use_a_person')],
            },
        ),
    ]
