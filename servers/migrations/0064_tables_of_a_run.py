"""A run's columns in five tables: a row of the other four is made for each run."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models

# Column of the run, its table now, its name there.
MOVED = (
    ("values", "plan", "values"),
    ("like", "plan", "repeats"),
    ("pinned_image", "plan", "pinned_image"),
    ("despite", "plan", "overridden_errors"),
    ("restart_despite", "plan", "restart_overridden_errors"),
    ("tries", "plan", "attempts"),
    ("given", "plan", "sealed_secrets"),
    ("pulling_at", "start", "pulling_at"),
    ("creating_at", "start", "creating_at"),
    ("pulled", "start", "pulled"),
    ("pull_total", "start", "pull_total"),
    ("image_digest", "start", "image_digest"),
    ("checkpoint_revision", "start", "checkpoint_revision"),
    ("engine_version", "start", "engine_version"),
    ("command", "start", "command"),
    ("docker_run", "start", "docker_run"),
    ("around", "start", "around"),
    ("origin", "start", "origin"),
    ("unattributed_at_start", "start", "unattributed_at_start"),
    ("memory_before", "start", "memory_before"),
    ("memory_warning", "start", "memory_warning"),
    ("reader", "start", "reader"),
    ("phases_read", "start", "phases_read"),
    ("usual_phases", "start", "usual_phases"),
    ("last_output_at", "start", "last_output_at"),
    ("download_began_at", "start", "download_began_at"),
    ("download_ended_at", "start", "download_ended_at"),
    ("download_size", "start", "download_size"),
    ("download_total", "start", "download_total"),
    ("download_rate", "start", "download_rate"),
    ("log_lines", "log", "lines"),
    ("log_size", "log", "size"),
    ("log_gap", "log", "gap"),
    ("log_searched", "log", "searched"),
    ("log_found", "log", "found"),
    ("log_complete", "log", "is_complete"),
    ("log_from", "log", "from_stamp"),
    ("log_until", "log", "until_stamp"),
    ("log_files", "log", "files"),
    ("last_lines", "log", "last_lines"),
    ("diagnosis", "log", "diagnosis"),
    ("oom", "log", "oom"),
    ("requests_running", "health", "requests_running"),
    ("last_request_at", "health", "last_request_at"),
    ("tokens_per_second", "health", "tokens_per_second"),
    ("peak_tokens_per_second", "health", "peak_tokens_per_second"),
    ("peak_memory", "health", "peak_memory"),
    ("unhealthy_since", "health", "unhealthy_since"),
    ("unhealthy_because", "health", "unhealthy_because"),
    ("slow_because", "health", "slow_because"),
    ("spins_since", "health", "spins_since"),
    ("spinning_gpus", "health", "spinning_gpus"),
    ("first_answer", "health", "first_answer"),
    ("sleep_info", "health", "sleep_info"),
    ("memory_after", "health", "memory_after"),
)
TABLES = ("plan", "start", "log", "health")
KEYS = {"like": "like_id", "repeats": "repeats_id"}


def split(apps: Any, schema_editor: Any) -> None:
    for part in TABLES:
        columns = _columns(schema_editor, part)
        there, here = (", ".join(names) for names in zip(*columns, strict=True))
        schema_editor.execute(
            f"INSERT INTO servers_run{part} (run_id, {there}) SELECT id, {here} FROM servers_run"
        )
    _settle(schema_editor)


def join(apps: Any, schema_editor: Any) -> None:
    for part in TABLES:
        columns = _columns(schema_editor, part)
        values = ", ".join(
            f"{here} = (SELECT {there} FROM servers_run{part} WHERE run_id = servers_run.id)"
            for there, here in columns
        )
        schema_editor.execute(f"UPDATE servers_run SET {values}")
    _settle(schema_editor)


def _columns(schema_editor: Any, part: str) -> list[tuple[str, str]]:
    """Quoted: there and in the run's own table."""
    quote = schema_editor.connection.ops.quote_name
    return [
        (quote(KEYS.get(new, new)), quote(KEYS.get(old, old)))
        for old, table, new in MOVED
        if table == part
    ]


def _settle(schema_editor: Any) -> None:
    """PostgreSQL changes no table with keys that are still to be checked."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        schema_editor.execute("SET CONSTRAINTS ALL DEFERRED")


class Migration(migrations.Migration):
    dependencies = [("servers", "0063_names_of_relations")]
    operations = [
        migrations.CreateModel(
            name='RunHealth',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='health', serialize=False, to='servers.run')),
                ('requests_running', models.PositiveIntegerField(null=True)),
                ('last_request_at', models.DateTimeField(null=True)),
                ('tokens_per_second', models.FloatField(null=True)),
                ('peak_tokens_per_second', models.FloatField(null=True)),
                ('peak_memory', models.BigIntegerField(null=True)),
                ('unhealthy_since', models.DateTimeField(null=True)),
                ('unhealthy_because', models.CharField(blank=True, max_length=200)),
                ('slow_because', models.CharField(blank=True, max_length=200)),
                ('spins_since', models.DateTimeField(null=True)),
                ('spinning_gpus', models.PositiveSmallIntegerField(default=0)),
                ('first_answer', models.JSONField(default=dict)),
                ('sleep_info', models.JSONField(default=dict)),
                ('memory_after', models.JSONField(default=dict)),
            ],
            options={
                'verbose_name_plural': 'run health',
            },
        ),
        migrations.CreateModel(
            name='RunLog',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='log', serialize=False, to='servers.run')),
                ('lines', models.PositiveIntegerField(default=0)),
                ('size', models.BigIntegerField(default=0)),
                ('gap', models.JSONField(null=True)),
                ('searched', models.PositiveIntegerField(default=0)),
                ('found', models.JSONField(default=dict)),
                ('is_complete', models.BooleanField(default=False)),
                ('from_stamp', models.CharField(blank=True, max_length=40)),
                ('until_stamp', models.CharField(blank=True, max_length=40)),
                ('files', models.JSONField(default=dict)),
                ('last_lines', models.JSONField(default=list)),
                ('diagnosis', models.JSONField(default=dict)),
                ('oom', models.JSONField(default=dict)),
            ],
        ),
        migrations.CreateModel(
            name='RunStart',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='start', serialize=False, to='servers.run')),
                ('pulling_at', models.DateTimeField(null=True)),
                ('creating_at', models.DateTimeField(null=True)),
                ('pulled', models.BigIntegerField(null=True)),
                ('pull_total', models.BigIntegerField(null=True)),
                ('image_digest', models.CharField(blank=True, max_length=300)),
                ('checkpoint_revision', models.CharField(blank=True, max_length=64)),
                ('engine_version', models.CharField(blank=True, max_length=60)),
                ('command', models.JSONField(default=list)),
                ('docker_run', models.TextField(blank=True)),
                ('around', models.JSONField(default=dict)),
                ('origin', models.JSONField(default=dict)),
                ('unattributed_at_start', models.BigIntegerField(null=True)),
                ('memory_before', models.JSONField(null=True)),
                ('memory_warning', models.TextField(blank=True)),
                ('reader', models.JSONField(default=dict)),
                ('phases_read', models.PositiveIntegerField(default=0)),
                ('usual_phases', models.JSONField(default=dict)),
                ('last_output_at', models.DateTimeField(null=True)),
                ('download_began_at', models.DateTimeField(null=True)),
                ('download_ended_at', models.DateTimeField(null=True)),
                ('download_size', models.BigIntegerField(null=True)),
                ('download_total', models.BigIntegerField(null=True)),
                ('download_rate', models.FloatField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='RunPlan',
            fields=[
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='plan', serialize=False, to='servers.run')),
                ('values', models.JSONField(default=dict)),
                ('pinned_image', models.CharField(blank=True, max_length=80)),
                ('overridden_errors', models.CharField(blank=True, max_length=300)),
                ('restart_overridden_errors', models.CharField(blank=True, max_length=300)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('sealed_secrets', models.BinaryField(null=True)),
                ('repeats', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='servers.run')),
            ],
        ),
        migrations.RunPython(split, join),
        *(migrations.RemoveField("run", old) for old, _table, _new in MOVED),
    ]
