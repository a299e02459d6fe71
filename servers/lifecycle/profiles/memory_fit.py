"""The memory fit of a launch on a box now."""

from django.utils import timezone

from servers.judge.memory import room
from servers.judge.memory.room import GpuRoom
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.subject import LintFinding, Subject
from servers.judge.weights.fit.estimate import estimate as judged
from servers.judge.weights.fit.result import Estimate, PastMeasurement
from servers.judge.weights.fit.rooms import on_this_box
from servers.launch.engines import parameters
from servers.launch.engines.change import LaunchChange
from servers.launch.engines.diff import compare
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles.knowledge import Knowledge, LaunchOnBox
from servers.models import Box, Run

RULE = "memory-fit"  # the name by which a page asks for one of its changes

# What a launch may say differently and take the same memory.
_NO_MATTER = (
    "reasons", "hardware", "expected", "served_name", "port", "host_address", "host_port",
    "network", "digests", "drop_cache", "free_memory", "grace", "ready_path", "ready_limit",
    "restart", "restart_tries", "start_with_box", "log_must", "log_must_not", "parameters",
    "pass_hf_token", "dockerfile", "build_files", "aliases", "start_on_request", "hold_requests",
    "stop_idle", "when_idle",
)  # fmt: skip


def rooms(start: LaunchOnBox, knowledge: Knowledge) -> tuple[GpuRoom, ...]:
    """What each GPU has for this start, which replaces what runs of its server."""
    own = {run.container_id for run in knowledge.find_replaced(start) if run.container_id}
    return room.rooms(knowledge.sample(start.box), start.box.gpus or (), own=own)


def estimate(subject: Subject, start: LaunchOnBox, knowledge: Knowledge) -> Estimate | None:
    """None for a launch without GPUs or models. `subject` holds the rooms."""
    if not subject.launch.serves_models:
        return None
    return judged(subject, _past(subject, start, knowledge))


def findings(found: Estimate | None) -> list[LintFinding]:
    """Its changes as what a page's buttons ask for; `about` tells them apart."""
    return [
        LintFinding(
            rule=RULE,
            severity="warning",
            says=found.says if found else "",
            about=describe_fix(fix),
            fix=fix,
        )
        for fix in (found.fixes if found else ())
    ]


def describe_fix(fix: LaunchChange) -> str:
    return " ".join(sorted(fix.set_flags)) or "gpus"


def _past(subject: Subject, start: LaunchOnBox, knowledge: Knowledge) -> PastMeasurement | None:
    """What the latest good start of the very same launch held; None without one."""
    server, box = start.server, start.box
    for run in knowledge.last_good(start):
        if server is not None and run.server_id != server.pk:
            continue
        if run.peak_memory and run.ready_at and _is_same(run.launch, subject.launch):
            count = _count(run, subject, box)
            if count:
                day = timezone.localdate(run.ready_at)
                return PastMeasurement(peak=run.peak_memory // count, day=day, run=run.pk)
    return None


def _is_same(ran: Launch, launch: Launch) -> bool:
    launch = parameters.fill(launch)
    return all(
        each.name in _NO_MATTER or each.before == each.after for each in compare(ran, launch)
    )


def _count(run: Run, subject: Subject, box: Box) -> int:
    """Over how many GPUs of the box its memory was spread; 0 where that is not known."""
    said = run.gpus or run.version.launch.gpus
    given = len(said.split(",")) if said.replace(",", "").isdigit() else len(box.gpus or ())
    return min(given, on_this_box(LaunchFacts(subject)) or given)
