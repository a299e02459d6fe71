"""Actions, image jobs and downloads in one table."""

import django.db.models.deletion
from django.db import migrations, models

IMAGES = ("pull", "build", "move", "prune")
KINDS = (
    "kill", "unlink", "adopt", "remove", "reclaim", "watch", "delete", "profile", "takeover",
    *IMAGES, "download",
)  # fmt: skip
OPEN = ("asked", "doing", "checking", "downloading", "verifying", "held", "paused")
STATES = (*OPEN, "done", "failed", "refused", "cancelled")
IMAGE_PARAMS = ("digest", "images", "despite")
IMAGE_RESULT = ("layers", "is_whole", "free", "image_id", "lines")
ACTION_RESULT = ("profile", "server")
DOWNLOAD_PARAMS = ("revision", "patterns", "into", "limit", "drops_parts")
DOWNLOAD_RESULT = ("commit", "folder", "files", "verified", "looked", "trouble", "advice")
SAME = ("box_id", "state", "said", "asked_by_id", "asked_at", "ended_at")
SAME_DOWNLOAD = (*SAME, "wanted", "total", "done", "rate")


def take(row, names):
    return {name: getattr(row, name) for name in names}


def to_jobs(apps, editor):
    Job = apps.get_model("servers", "Job")
    for job in Job.objects.all():
        job.target, job.params, job.result = job.what, take(job, IMAGE_PARAMS), take(job, IMAGE_RESULT)
        job.wanted = "cancelled" if job.cancel_requested else "go"
        job.save()
    for action in apps.get_model("servers", "Action").objects.order_by("pk"):
        details = dict(action.details)
        result = {name: details.pop(name) for name in ACTION_RESULT if name in details}
        job = Job(
            kind=action.kind, target=action.target, what=action.what, params=details,
            result=result | {"command": action.command}, changed_at=action.asked_at,
            **take(action, SAME),
        )  # fmt: skip
        if action.kind == "pull":
            job.what = job.target = str(details.get("image", action.what))
            job.params = {"server": ""}
            job.state = "done" if action.state == "done" else "failed"
            job.ended_at = action.ended_at or action.asked_at
        job.save()
    for row in apps.get_model("servers", "Download").objects.order_by("pk"):
        job = Job(
            kind="download", target=row.key, what=row.repository, changed_at=row.moved_at,
            params=take(row, DOWNLOAD_PARAMS), result=take(row, DOWNLOAD_RESULT),
            **take(row, SAME_DOWNLOAD),
        )  # fmt: skip
        job.state = "asked" if row.state == "waiting" else row.state
        job.save()
    settle(editor)


def from_jobs(apps, editor):
    """Pulls that were asked for after a failure stay with the others."""
    Job = apps.get_model("servers", "Job")
    Action, Download = apps.get_model("servers", "Action"), apps.get_model("servers", "Download")
    for job in Job.objects.order_by("pk"):
        if job.kind in IMAGES:
            for name, value in (job.params | job.result).items():
                if name in (*IMAGE_PARAMS, *IMAGE_RESULT):
                    setattr(job, name, value)
            job.cancel_requested = job.wanted == "cancelled"
            job.save()
            continue
        if job.kind == "download":
            values = {
                name: value
                for name, value in (job.params | job.result).items()
                if name in (*DOWNLOAD_PARAMS, *DOWNLOAD_RESULT)
            }
            row = Download(
                key=job.target, repository=job.what, moved_at=job.changed_at,
                **take(job, SAME_DOWNLOAD), **values,
            )  # fmt: skip
            row.state = "waiting" if job.state == "asked" else job.state
        else:
            more = {name: job.result[name] for name in ACTION_RESULT if name in job.result}
            row = Action(
                kind=job.kind, target=job.target[:120], what=job.what[:200],
                details=job.params | more, command=job.result.get("command", ""),
                **take(job, SAME),
            )  # fmt: skip
        row.save()
        job.delete()
    settle(editor)


def settle(editor):
    """PostgreSQL changes no table while rows of it are still to be checked."""
    if editor.connection.vendor == "postgresql":
        editor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def choices(*names):
    return [(name, "Take Over" if name == "takeover" else name.title()) for name in names]


class Migration(migrations.Migration):
    dependencies = [("servers", "0064_tables_of_a_run")]
    operations = [
        migrations.RemoveConstraint("imagejob", "one_open_job_an_image"),
        migrations.RenameModel("ImageJob", "Job"),
        migrations.RenameField("job", "reference", "what"),
        migrations.AlterField(
            "job",
            "box",
            models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="jobs", to="servers.box"
            ),
        ),
        migrations.AlterField(
            "job", "kind", models.CharField(max_length=10, choices=choices(*KINDS))
        ),
        migrations.AlterField(
            "job", "state", models.CharField(max_length=12, choices=choices(*STATES), default="asked")
        ),
        migrations.AddField(
            "job", "target", models.CharField(max_length=500, blank=True)
        ),
        migrations.AddField("job", "params", models.JSONField(default=dict)),
        migrations.AddField("job", "result", models.JSONField(default=dict)),
        migrations.AddField(
            "job",
            "wanted",
            models.CharField(
                max_length=10, choices=choices("go", "paused", "cancelled"), default="go"
            ),
        ),
        migrations.RunPython(to_jobs, from_jobs),
        *(
            migrations.RemoveField("job", name)
            for name in (*IMAGE_PARAMS, *IMAGE_RESULT, "cancel_requested")
        ),
        migrations.DeleteModel("Action"),
        migrations.DeleteModel("Download"),
        migrations.AddConstraint(
            "job",
            models.UniqueConstraint(
                fields=["box", "kind", "target"],
                condition=models.Q(state__in=OPEN),
                name="one_open_job_a_target",
            ),
        ),
        *(
            migrations.CreateModel(
                name, [], {"proxy": True, **options}, ("servers.job",)
            )
            for name, options in (("ImageJob", {}), ("Download", {"ordering": ["pk"]}))
        ),
    ]
