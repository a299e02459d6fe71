"""Parts of the dashboard: recent actions, restarts of boxes, and what was found on boxes without servers."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count
from django.urls import reverse
from django.utils import timezone

from servers.contexts import activity
from servers.judge.runs import reboot
from servers.judge.runs.reboot import RebootReport, ServerAfterReboot
from servers.lifecycle.runs import starts
from servers.models import (
    AuditEntry,
    Box,
    ExternalEngine,
    Reboot,
    Run,
    Server,
    StoredCheckpoint,
    User,
)
from servers.models.runs.run import DesiredState, RunState

MOST = 8
# What is done to servers can be seen on their pages; the rest of the log is an admin's to read.
_SEEN_BY_ALL = (
    *("start", "stop", "restart", "remove", "restore", "place", "claim", "apply fix"),
    *("watch", "unwatch", "start outside inferdash", "keep running", "let requests start"),
)


@dataclass(frozen=True, kw_only=True)
class RecentAction:
    by: str
    verb: str
    subject: str
    url: str  # of the server, where there is one of this name
    at: datetime


def list_recent(person: User) -> list[RecentAction]:
    entries = AuditEntry.objects.select_related("by")
    if not person.may_administer:
        entries = entries.filter(action__in=_SEEN_BY_ALL)
    newest = list(entries[:MOST])
    named = Server.objects.filter(slug__in={each.subject for each in newest})
    there = set(named.values_list("slug", flat=True))
    return [
        RecentAction(
            by=entry.by.username if entry.by else "inferdash",
            verb=activity.describe_action(entry.action),
            subject=entry.subject,
            url=reverse("server", args=[entry.subject]) if entry.subject in there else "",
            at=entry.at,
        )
        for entry in newest
    ]


# What restarts.plan_after_boot begins its sentences with; here the whole line says it.
_PREFIX = "The box was restarted."


@dataclass(frozen=True, kw_only=True)
class RebootNotice:
    boot: Reboot
    told: RebootReport


def list_reboots() -> list[RebootNotice]:
    """One for each box whose restart is still told of."""
    found = []
    for boot in Reboot.objects.unread().select_related("box"):
        told = _build_report(boot)
        if not told.is_over(timezone.now()):
            found.append(RebootNotice(boot=boot, told=told))
    return found


def _build_report(boot: Reboot) -> RebootReport:
    ended = Run.objects.in_bulk(boot.runs)
    servers = Server.objects.present().select_related(
        "run__version", "run__stopped_by", "run__server", "box"
    )
    now = {server.pk: server for server in servers.filter(runs__in=boot.runs).distinct()}
    fates = []
    for pk in boot.runs:
        before = ended.get(pk)
        server = now.get(before.server_id) if before is not None else None
        if before is not None and server is not None and server.run is not None:
            fates.append(_fate(server, server.run, before))
    return RebootReport(
        box=boot.box.slug,
        booted_at=boot.booted_at,
        fates=reboot.in_order(fates),
        upgraded=reboot.list_upgrades(boot.before, boot.after),
    )


def _fate(server: Server, run: Run, before: Run) -> ServerAfterReboot:
    slug = server.slug
    said = run.status_message.removeprefix(_PREFIX).strip()
    if run.state == RunState.READY and run.wanted == DesiredState.RUNNING:
        return ServerAfterReboot(server=slug, where="back", why="")
    if run.state == RunState.QUEUED:
        return ServerAfterReboot(server=slug, where="waiting", why=said)
    if run.is_active and run.wanted == DesiredState.RUNNING:
        return ServerAfterReboot(server=slug, where="starting", why=_progress(server, run))
    if run.restart_at is not None:
        return ServerAfterReboot(
            server=slug, where="waiting", why=said or "It is started in a moment."
        )
    if run.stopped_by is not None:
        return ServerAfterReboot(server=slug, where="not", why=f"{run.stopped_by} has stopped it.")
    if run.state == RunState.FAILED and run.pk != before.pk:
        return ServerAfterReboot(server=slug, where="not", why=run.why, has_failed=True)
    return ServerAfterReboot(server=slug, where="not", why=said or run.why)


def _progress(server: Server, run: Run) -> str:
    start = starts.measure_progress(run, run.version.launch, unified=server.box.is_unified)
    if start is None:
        return str(RunState(run.state).label).casefold()
    words = start.words[:1].lower() + start.words[1:]
    return words if start.percent is None else f"{words} {start.percent} %"


@dataclass(frozen=True, kw_only=True)
class BoxSummary:
    slug: str
    gpus: int | None  # None: not reported yet
    docker: str  # version; "" where it cannot be used
    engines: int  # external ones that run
    models: int  # on its disks

    @property
    def words(self) -> str:
        """Of what is there; what is missing stands among the alerts."""
        counts = (
            (self.gpus or 0, "GPU", "GPUs"),
            (self.engines, "engine running", "engines running"),
            (self.models, "model on disk", "models on disk"),
        )
        said = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
        if self.docker:
            said.insert(1 if self.gpus else 0, f"Docker {self.docker}")
        return " · ".join(said)


def list_summaries() -> list[BoxSummary]:
    """In as many queries for eight boxes as for one."""
    running = ExternalEngine.objects.filter(has_ended=False).order_by()
    engines = dict(running.values_list("box").annotate(Count("pk")))
    models = dict(StoredCheckpoint.objects.order_by().values_list("box").annotate(Count("pk")))
    return [
        BoxSummary(
            slug=box.slug,
            gpus=None if box.gpus is None else len(box.gpus),
            docker=str(box.facts.get("docker", {}).get("version", "")),
            engines=engines.get(box.pk, 0),
            models=models.get(box.pk, 0),
        )
        for box in Box.objects.all()
    ]
