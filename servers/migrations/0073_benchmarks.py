"""Benchmarks: results of check-ups, their points, and the job that measures."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('servers', '0072_notification_choices'),
    ]

    operations = [
        migrations.CreateModel(
            name='BenchmarkJob',
            fields=[
            ],
            options={
                'proxy': True,
                'indexes': [],
                'constraints': [],
            },
            bases=('servers.job',),
        ),
        migrations.AlterField(
            model_name='job',
            name='kind',
            field=models.CharField(choices=[('kill', 'Kill'), ('unlink', 'Unlink'), ('adopt', 'Adopt'), ('remove', 'Remove'), ('reclaim', 'Reclaim'), ('watch', 'Watch'), ('delete', 'Delete'), ('profile', 'Profile'), ('takeover', 'Take Over'), ('pull', 'Pull'), ('build', 'Build'), ('move', 'Move'), ('prune', 'Prune'), ('download', 'Download'), ('benchmark', 'Benchmark')], max_length=10),
        ),
        migrations.CreateModel(
            name='Benchmark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('schema', models.PositiveSmallIntegerField(default=1)),
                ('server_name', models.CharField(max_length=80)),
                ('preset', models.CharField(max_length=40)),
                ('title', models.CharField(max_length=80)),
                ('preset_version', models.PositiveSmallIntegerField()),
                ('asked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('begun_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('outcome', models.CharField(blank=True, choices=[('', 'Open'), ('whole', 'Whole'), ('stopped', 'Stopped'), ('limit', 'Limit'), ('failed', 'Failed')], max_length=10)),
                ('said', models.TextField(blank=True)),
                ('measured_on', models.JSONField(default=dict)),
                ('is_clean', models.BooleanField(null=True)),
                ('box', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='benchmarks', to='servers.box')),
                ('by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('job', models.OneToOneField(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='benchmark', to='servers.job')),
                ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='servers.run')),
                ('server', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='benchmarks', to='servers.server')),
                ('version', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='servers.profileversion')),
            ],
            options={
                'ordering': ['-pk'],
            },
        ),
        migrations.CreateModel(
            name='BenchmarkPoint',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('place', models.PositiveSmallIntegerField()),
                ('name', models.CharField(max_length=80)),
                ('concurrency', models.PositiveIntegerField()),
                ('prompt_tokens', models.PositiveIntegerField()),
                ('output_tokens', models.PositiveIntegerField()),
                ('rounds', models.JSONField(default=list)),
                ('requests', models.JSONField(default=list)),
                ('taints', models.JSONField(default=list)),
                ('benchmark', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='points', to='servers.benchmark')),
            ],
            options={
                'ordering': ['place'],
            },
        ),
        migrations.AddIndex(
            model_name='benchmark',
            index=models.Index(fields=['server', '-id'], name='servers_ben_server__e3b653_idx'),
        ),
        migrations.AddConstraint(
            model_name='benchmarkpoint',
            constraint=models.UniqueConstraint(fields=('benchmark', 'place'), name='one_point_a_place'),
        ),
    ]
