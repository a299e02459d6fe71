"""The first line of the dashboard after a restart of a box."""

from dataclasses import dataclass

from django.template.loader import render_to_string
from django.utils import timezone

from servers.judge.runs import reboot
from servers.judge.runs.reboot import RebootReport, ServerAfterReboot
from servers.lifecycle.runs import starts
from servers.models import Reboot, Run, Server, User
from servers.models.runs.run import DesiredState, RunState

# What restarts.plan_after_boot begins its sentences with; here the whole line says it.
_PREFIX = "The box was restarted."


@dataclass(frozen=True, kw_only=True)
class RebootNotice:
    boot: Reboot
    told: RebootReport


def lines() -> list[RebootNotice]:
    """One for each box whose restart is still told of."""
    found = []
    for boot in Reboot.objects.unread().select_related("box"):
        told = _build_report(boot)
        if not told.is_over(timezone.now()):
            found.append(RebootNotice(boot=boot, told=told))
    return found


def html(person: User) -> str:
    return render_to_string("memory/_live_reboots.html", {"reboots": lines(), "person": person})


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
