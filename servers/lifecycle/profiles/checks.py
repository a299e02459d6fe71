"""Checks of a launch on a box, by the newest facts of the box and the features of engines."""

from dataclasses import dataclass, replace

from django.utils import timezone

from servers.judge.profiles import features
from servers.judge.profiles.admission import LastGoodRun, weigh
from servers.judge.profiles.facts import LaunchFacts, LintFinding, Subject
from servers.judge.profiles.features import MissingFeature
from servers.judge.profiles.lint import lint
from servers.judge.weights.fit.demand import read_context
from servers.judge.weights.fit.estimate import estimate as judged
from servers.judge.weights.fit.result import Estimate, PastMeasurement, on_this_box
from servers.launch.engines import parameters
from servers.launch.engines.change import LaunchChange, compare_launches
from servers.launch.engines.launch import Launch
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.models import Box, Profile, Run, Server


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """Findings, the worst first, and whether it fits: None without a box, or without GPUs."""

    subject: Subject
    findings: list[LintFinding]
    fit: Estimate | None

    @property
    def every(self) -> list[LintFinding]:
        """With the changes that would make it fit."""
        return [*self.findings, *list_fit_findings(self.fit)]


def check_start(context: LaunchContext) -> CheckReport:
    """What is known of a start now, with the memory that its GPUs have free at this moment.

    With the server, what only that one holds counts as free; else what all of the profile's do.
    """
    asked = replace(context.subject, rooms=context.rooms)
    return CheckReport(
        subject=asked,
        findings=_weigh_findings(lint(asked), context),
        fit=estimate_fit(asked, context),
    )


def anywhere(launch: Launch) -> CheckReport:
    """What holds on every box."""
    asked = Subject(launch=launch)
    return CheckReport(subject=asked, findings=lint(asked), fit=None)


def findings(launch: Launch, box: Box | None, profile: Profile | None = None) -> list[LintFinding]:
    """The worst first, whatever memory is free now. Without a box what holds on every box.

    With the profile, its own starts on this box are weighed against what is known elsewhere.
    """
    if box is None:
        return anywhere(launch).findings
    context = LaunchContext(launch, box, profile)
    return _weigh_findings(lint(context.subject), context)


def _weigh_findings(found: list[LintFinding], context: LaunchContext) -> list[LintFinding]:
    return weigh(found, context.launch, find_last_good_run(context)) if found else found


def find_last_good_run(context: LaunchContext) -> LastGoodRun | None:
    """What the profile's latest start on this box that became ready says of its launch; None of one
    that inferdash has not made."""
    run = next(iter(context.last_good), None)
    if run is None or run.ready_at is None or run.is_watched:
        return None
    launch, day = (
        parameters.fill(run.version.launch, run.plan.values),
        timezone.localdate(run.ready_at),
    )
    return LastGoodRun(launch=launch, version=run.version.number, day=day)


@dataclass(frozen=True, kw_only=True)
class Chat:
    """`lacks` of what runs; those that the profile says by now are `saved`: a restart brings them."""

    lacks: tuple[MissingFeature, ...]
    saved: frozenset[str]  # keys
    takes_pictures: bool | None  # None: nobody can tell
    calls_tools: bool
    context: int | None  # tokens of the longest request; None: nobody can tell


def find_abilities(server: Server) -> Chat:
    subject = LaunchContext(server.launch, server.box).subject_alone
    found = features.lacks(subject)
    run = server.run
    # What runs is mostly what is saved: it is not looked at twice for every open page.
    is_newest = (
        run is not None
        and run.version_id == server.profile.current_id
        and run.plan.values == server.values
    )
    missing = found if is_newest or not found else list_features(server)
    keys = {lack.key for lack in missing}
    return Chat(
        lacks=found,
        saved=frozenset(lack.key for lack in found if lack.key not in keys),
        takes_pictures=features.takes_pictures(subject),
        calls_tools=features.calls_tools(subject, found),
        context=read_context(LaunchFacts(subject)),
    )


def list_features(server: Server) -> tuple[MissingFeature, ...]:
    """What the profile, as it is saved now, leaves chats with this server without."""
    return features.lacks(LaunchContext.of_server(server).subject_alone)


RULE = "memory-fit"  # the name by which a page asks for one of its changes

# What a launch may say differently and take the same memory.
_NO_MATTER = (
    "reasons", "hardware", "expected", "served_name", "port", "host_address", "host_port",
    "network", "digests", "drop_cache", "free_memory", "grace", "ready_path", "ready_limit",
    "restart", "restart_tries", "start_with_box", "log_must", "log_must_not", "parameters",
    "pass_hf_token", "dockerfile", "build_files", "aliases", "start_on_request", "hold_requests",
    "stop_idle", "when_idle",
)  # fmt: skip


def estimate_fit(subject: Subject, context: LaunchContext) -> Estimate | None:
    """None for a launch without GPUs or models. `subject` holds the rooms."""
    if not subject.launch.serves_models:
        return None
    return judged(subject, _past(subject, context))


def list_fit_findings(found: Estimate | None) -> list[LintFinding]:
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


def _past(subject: Subject, context: LaunchContext) -> PastMeasurement | None:
    """What the latest good start of the very same launch held; None without one."""
    server, box = context.server, context.box
    for run in context.last_good:
        if server is not None and run.server_id != server.pk:
            continue
        if run.health.peak_memory and run.ready_at and _is_same(run.launch, subject.launch):
            count = _count(run, subject, box)
            if count:
                day = timezone.localdate(run.ready_at)
                return PastMeasurement(peak=run.health.peak_memory // count, day=day, run=run.pk)
    return None


def _is_same(ran: Launch, launch: Launch) -> bool:
    launch = parameters.fill(launch)
    return all(
        each.name in _NO_MATTER or each.before == each.after
        for each in compare_launches(ran, launch)
    )


def _count(run: Run, subject: Subject, box: Box) -> int:
    """Over how many GPUs of the box its memory was spread; 0 where that is not known."""
    said = run.gpus or run.version.launch.gpus
    given = len(said.split(",")) if said.replace(",", "").isdigit() else len(box.gpus or ())
    return min(given, on_this_box(LaunchFacts(subject)) or given)
