"""Servers that requests start, and that are stopped when nobody asks them anything.

Off unless a profile says so, and never about what a person has started by hand.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from servers import events
from servers.judge.runs import gpu_conflicts as judge_gpu_conflicts
from servers.judge.runs import health
from servers.judge.runs.gpu_conflicts import OnDemandRun
from servers.launch import numbers
from servers.launch.engines import ENGINES
from servers.lifecycle.people import claims
from servers.lifecycle.profiles import checks, preflight
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.runs import commands, gpu_conflicts
from servers.lifecycle.runs.ownership import require_managed, verb
from servers.models import AuditEntry, Box, Run, RunHealth, Server, User
from servers.models.runs.run import DesiredState, ManagedRun, ManagedServer, RunState, Sleep
from servers.state import samples

# A start that waits for its GPUs outlives the request that wanted it: who asks again finds it.
WAITS = timedelta(minutes=10)
# Seconds after which one that could not be woken is tried again.
AGAIN = 30.0


class NotStartedError(Exception):
    """The server is not started for a request; the text says why, and what to do.

    `brief` is the same for who may not read logs and figures.
    """

    def __init__(self, says: str, *, brief: str) -> None:
        super().__init__(says)
        self.brief = brief


def ask(server: Server, *, by: User | None, passing: Collection[int]) -> ManagedRun | None:
    """Start it, or see to it that what is in its way goes away; the run that was begun, if one was.

    `passing` are runs to which requests are being passed on now. Raises NotStartedError.
    """
    if server.run is not None and server.run.sleeps and server.run.wanted == DesiredState.RUNNING:
        _wake(server, server.run, passing, by)
        return None
    if said := why_not(server):
        raise NotStartedError(said, brief=why_not(server, is_brief=True))
    context = LaunchContext.of_server(server)
    run = server.runs.active().first()
    if run is not None:
        if run.state == RunState.QUEUED and run.on_request:
            _make_room(context, server, passing, by)
        return None
    if server.run is not None and server.run.restart_at is not None:
        return None  # it is started again by itself
    checked = preflight.check(context)
    errors = [each.says for each in checked.errors if each.id != "loading"]
    errors += [each.says for each in checked.lasting]
    if errors:
        raise NotStartedError(
            f"{server} is not started: {errors[0]} Its page in inferdash says more.",
            brief=brief(server),
        )
    try:
        samples.check_room()  # before anything is stopped for it
    except samples.DiskFullError as error:
        raise NotStartedError(f"{server} is not started: {error}", brief=brief(server)) from error
    _make_room(context, server, passing, by, checked.known)
    patience = commands.QueueOptions(until=timezone.now() + WAITS)
    return commands.start(require_managed(server), by=by, patience=patience, on_request=True)


def _wake(server: Server, run: Run, passing: Collection[int], by: User | None) -> None:
    """Have it woken by its box, once it can have its memory back. Raises NotStartedError."""
    at = run.health.sleep_info.get("trouble_at", 0.0)
    if run.sleep_trouble and timezone.now().timestamp() - at < AGAIN:
        raise NotStartedError(run.sleep_trouble, brief=brief(server))
    lacking = health.compute_wake_shortfall(
        run.health.sleep_info, samples.newest(server.box.slug), run.gpus or "all"
    )
    if lacking:
        context = LaunchContext.of_server(server, run.launch)
        _make_room(context, server, passing, by, lacking=lacking)
    wakes = Run.objects.filter(pk=run.pk, wake_wanted_at=None).exclude(sleep=Sleep.WAKING)
    if wakes.update(wake_wanted_at=timezone.now()):
        events.wake_watcher(server.box.slug, events.Topic.RUNS)


def brief(server: Server) -> str:
    """That it cannot be started now, without the cause."""
    return f"{server} cannot be started now. Ask an operator; its page in inferdash says why."


def why_not(server: Server, *, is_brief: bool = False) -> str:
    """Why a request does not start it, in a sentence; "" if it does.

    With `is_brief` nothing in it is from a log.
    """
    launch = server.profile.launch
    if server.is_watched:
        return f"{server} is not running, and is started by whoever else runs it."
    if not launch.start_on_request:
        return f"{server} is not running. Start it on its page in inferdash."
    if server.held_back_by is not None:
        return (
            f"{server.held_back_by} has stopped {server}, so requests do not start it. Its page in "
            "inferdash lets them again."
        )
    if server.run is None or not _failed_to_start(server.run, server):
        return (
            ""  # without a question for each server: the gateway looks at all of them each second
        )
    tries = max(1, launch.restart_tries)
    last = list(server.runs.order_by("-pk")[:tries])
    if len(last) == tries and all(_failed_to_start(run, server) for run in last):
        if is_brief:
            return brief(server)
        times = "" if tries == 1 else f" {tries} times in a row"
        return (
            f"{server} has failed to start{times}: {last[0].why} Requests try it again after "
            "somebody has started it on its page, or has changed its profile."
        )
    return ""


def _failed_to_start(run: Run, server: Server) -> bool:
    is_same = run.version_id == server.profile.current_id
    return run.state == RunState.FAILED and run.ready_at is None and run.on_request and is_same


def _make_room(
    context: LaunchContext,
    server: Server,
    passing: Collection[int],
    by: User | None,
    known: checks.CheckReport | None = None,
    *,
    lacking: int | None = None,
) -> None:
    """`lacking`: bytes, where that is known better than by an estimate. Raises NotStartedError when somebody is in its way whom nobody may stop for it."""
    known = known or checks.check_start(context)
    found = gpu_conflicts.before_start(context, known)
    if claimed := claims.against_start(server, found.start.gpus, by):
        said = "; ".join(map(claims.describe, claimed))
        raise NotStartedError(
            f"{server} is not started for a request: {said}.", brief=brief(server)
        )
    if lacking is None:
        short = known.fit.lacking if known.fit is not None else 0
        lacking = found.start.missing or short * len(found.start.gpus or ())
    plan = judge_gpu_conflicts.make_room(
        found, _list_on_demand_runs(server.box, passing), lacking=lacking, now=timezone.now()
    )
    if plan.in_the_way:
        holders = " and ".join(map(str, plan.in_the_way))
        raise NotStartedError(
            f"{server} needs {found.where}, held by {holders}, and only servers that requests have "
            "started are stopped to make room. Stop that, or request another model.",
            brief=brief(server),
        )
    stops = Run.objects.filter_managed().filter(pk__in=plan.stops)
    for run in stops.select_related("server__profile__current"):
        _stop(run, f"Stopped to make room for {server}, which a request needs.")


def _list_on_demand_runs(box: Box, passing: Collection[int]) -> list[OnDemandRun]:
    """What requests have started, and what goes away by itself."""
    runs = Run.objects.active().filter(server__box=box)
    runs = runs.filter(Q(on_request=True, state=RunState.READY) | ~Q(wanted=DesiredState.RUNNING))
    runs = runs.select_related("server__box", "health")
    return [_as_served(run, passing) for run in runs if not claims.is_claimed(run)]


def _as_served(run: Run, passing: Collection[int]) -> OnDemandRun:
    return OnDemandRun(
        run=run.pk,
        ready_at=run.ready_at if run.wanted == DesiredState.RUNNING else None,
        last_request_at=run.health.last_request_at,
        requests_running=run.health.requests_running,
        is_passing=run.pk in passing or run.sleep in (Sleep.FALLING, Sleep.WAKING),
    )


def stop_idle(box: Box) -> None:
    """Stop what requests have started and nobody has asked for as long as its profile says, unless
    it sleeps instead."""
    for run in idle_on(box):
        if not run.sleeps and not may_sleep(run):
            stop_as_idle(run)


@verb
def stop_as_idle(run: ManagedRun, /, because: str = "") -> None:
    """`because`: why it does not sleep, as its profile says."""
    limit = numbers.format_duration(run.version.launch.stop_idle)
    then = f" It was to sleep, and did not: {because}" if because else ""
    _stop(run, f"Stopped after {limit} without a request; one starts it.{then}")


def may_sleep(run: Run) -> bool:
    """Whether it goes to sleep when it is idle, instead of being stopped."""
    launch = run.version.launch
    return bool(launch.sleep_level) and ENGINES[launch.engine].may_sleep(launch)


def idle_on(box: Box) -> Iterator[ManagedRun]:
    """What requests have started, and nobody has asked for as long as its profile says."""
    now = timezone.now()
    runs = (
        Run.objects.filter_managed()
        .filter(server__box=box, on_request=True, state=RunState.READY, wanted=DesiredState.RUNNING)
        .select_related("server__box", "server__profile__current", "version", "plan", "health")
    )
    for run in runs.fetch_any():
        limit = run.version.launch.stop_idle
        since = _as_served(run, ()).idle_since(now)
        is_idle = limit and since is not None and now - since >= timedelta(seconds=limit)
        if is_idle and not claims.is_claimed(run):
            yield run


def _stop(run: ManagedRun, why: str) -> None:
    """After the requests that have come meanwhile."""
    with transaction.atomic():
        if commands.stop(run, by=None, after_requests=True, why=why):
            Run.objects.filter(pk=run.pk).update(status_message=why)
    events.wake_watcher(run.server.box.slug, events.Topic.RUNS)


@dataclass(frozen=True, kw_only=True)
class StartOnDemand:
    """A server that requests start, as the page of the gateway lists it."""

    server: Server
    idle_since: datetime | None  # None: it does not run for a request, or serves
    place: int | None  # in the order in which they are stopped to make room


def list_on_demand() -> list[StartOnDemand]:
    """All of them: those that may be stopped first, in that order."""
    shown = (
        Server.objects.filter_managed()
        .filter(removed_at=None)
        .select_related(
            "box",
            "profile__current",
            "held_back_by",
            "run__version",
            "run__started_by",
            "run__plan",
            "run__health",
        )
    )
    now = timezone.now()
    found: list[tuple[datetime | None, Server]] = []
    for server in shown.order_by("slug"):
        run = server.run
        if server.profile.launch.start_on_request:
            is_its = run is not None and run.on_request and run.state == RunState.READY
            found.append((_as_served(run, ()).idle_since(now) if run and is_its else None, server))
    found.sort(key=lambda each: (each[0] is None, each[0] or now))
    return [
        StartOnDemand(server=server, idle_since=since, place=number if since else None)
        for number, (since, server) in enumerate(found, start=1)
    ]


def note_serving(runs: Collection[int]) -> None:
    """Requests are being passed on to these now: not every engine says so itself."""
    RunHealth.objects.filter(run__in=runs).update(last_request_at=timezone.now())


@verb
def keep(server: ManagedServer, /, *, by: User) -> bool:
    """Make what a request has started somebody's own: it stays until a person stops it."""
    kept = Run.objects.active().filter(server=server, on_request=True)
    if not kept.update(on_request=False, started_by=by):
        return False
    if (
        Run.objects.active()
        .filter(server=server)
        .exclude(sleep=Sleep.AWAKE)
        .update(wake_wanted_at=timezone.now())
    ):
        events.wake_watcher(server.box.slug, events.Topic.RUNS)
    AuditEntry.note(by, "keep running", server)
    transaction.on_commit(lambda: events.publish_change("server", server.pk))
    return True


@verb
def let(server: ManagedServer, /, *, by: User) -> bool:
    """Let requests start again what somebody has stopped."""
    if not Server.objects.filter(pk=server.pk).exclude(held_back_by=None).update(held_back_by=None):
        return False
    AuditEntry.note(by, "let requests start", server)
    transaction.on_commit(lambda: events.publish_change("server", server.pk))
    return True


def describe_sleep(run: Run) -> str:
    """ "asleep: 71 GiB released, wakes in about 3 s"; "" of one that is awake."""
    return health.describe_sleep(run.health.sleep_info, run.sleep).text if run.sleeps else ""


def find_sleep_code(run: Run) -> str:
    """Of the message of describe_sleep(); "" of one that is awake."""
    return health.describe_sleep(run.health.sleep_info, run.sleep).code if run.sleeps else ""


def describe_sleep_clause(run: Run) -> str:
    """The same behind its name: "is asleep: …", "wakes up"."""
    words = describe_sleep(run)
    return f"is {words}" if run.sleep == Sleep.ASLEEP else words
