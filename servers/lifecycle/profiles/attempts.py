"""Attempts to start a checkpoint, over all profiles and servers, and the record of a profile's runs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from django.db.models import Q, QuerySet

from servers.judge.charts import ChartedStart
from servers.judge.logs import failure_catalog
from servers.judge.runs import start_progress
from servers.launch.engines import change
from servers.launch.engines.change import Difference
from servers.launch.engines.launch import SAYS_ONLY
from servers.lifecycle.runs import starts as run_starts
from servers.models import Profile, ProfileVersion, Run, User
from servers.models.runs.run import RunState

# What people write about a launch does not change what it does.


@dataclass(frozen=True, kw_only=True)
class AttemptFilter:
    """Which attempts somebody looks for; empty means all."""

    box: str = ""
    outcome: str = ""  # a key of OUTCOMES
    cause: str = ""  # of the catalogue


@dataclass(frozen=True, kw_only=True)
class FilterChoice:
    """A value to filter by, and how many attempts have it."""

    value: str
    words: str
    count: int


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What was changed since the attempt before, how far this one came, why it ended."""

    run: Run
    before: Run | None  # the attempt before, on the same box if there was one
    differences: tuple[Difference, ...]  # between the two launches
    image_changed: bool  # another image id under the same name
    rebooted: bool  # the box was, between the two

    @property
    def other_box(self) -> str:
        """The box of the attempt before, where it was another one."""
        before = self.before
        is_other = before is not None and before.server.box_id != self.run.server.box_id
        return before.server.box.slug if before is not None and is_other else ""

    @property
    def is_same(self) -> bool:
        return self.before is not None and not (
            self.differences or self.image_changed or self.other_box
        )


OUTCOMES = {
    "ready": ("became ready", Q(ready_at__isnull=False)),
    "failed": ("failed to start", Q(ready_at=None, state=RunState.FAILED)),
    "other": ("still starting, or was stopped", Q(ready_at=None) & ~Q(state=RunState.FAILED)),
}


def list_attempts(checkpoint: str, person: User) -> QuerySet[Run]:
    """All attempts that this person may see, the newest first."""
    versions = ProfileVersion.objects.filter(spec__checkpoint=checkpoint).values("pk")
    found = Run.objects.filter(version__in=versions)
    if person.may_administer:
        return found
    profile = "version__profile"
    return found.filter(Q(**{f"{profile}__is_private": False}) | Q(**{f"{profile}__owner": person}))


def filter_attempts(attempts: QuerySet[Run], wish: AttemptFilter) -> QuerySet[Run]:
    if wish.box:
        attempts = attempts.filter(server__box__slug=wish.box)
    if wish.outcome in OUTCOMES:
        attempts = attempts.filter(OUTCOMES[wish.outcome][1])
    if wish.cause:
        attempts = attempts.filter(log__diagnosis__cause=wish.cause)
    return attempts


def causes(attempts: QuerySet[Run]) -> list[FilterChoice]:
    """Why attempts failed, the most frequent cause first."""
    counted = Counter(
        attempts.exclude(log__diagnosis={}).values_list("log__diagnosis__cause", flat=True)
    )
    known = failure_catalog.by_id()
    return [
        FilterChoice(value=cause, words=_words(cause), count=count)
        for cause, count in counted.most_common()
        if cause in known
    ]


def _words(cause: str) -> str:
    return cause.replace("-", " ")


def boxes(attempts: QuerySet[Run]) -> list[FilterChoice]:
    counted = Counter(attempts.values_list("server__box__slug", flat=True))
    return [
        FilterChoice(value=box, words=box, count=count) for box, count in sorted(counted.items())
    ]


def rows(shown: Sequence[Run], attempts: QuerySet[Run]) -> list[Attempt]:
    """These attempts, each against the one before it among all attempts."""
    before = _find_previous(shown, attempts.order_by("pk").values_list("pk", "server__box_id"))
    wanted_ones = [*(run.pk for run in shown), *before.values()]
    detailed = Run.objects.select_related(
        "server__box",
        "version__profile",
        "stopped_by",
        "started_by",
        "plan__repeats__start",
        "start",
        "log",
        "health",
    )
    runs = detailed.defer("start__command", "log__last_lines", "plan__sealed_secrets").in_bulk(
        wanted_ones
    )
    return [_attempt(runs[run.pk], runs.get(before.get(run.pk, 0))) for run in shown]


def _find_previous(shown: Sequence[Run], attempts: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Of each, the attempt before it on its box; of a box's first, the last one anywhere."""
    pks = {run.pk for run in shown}
    found: dict[int, int] = {}
    on_box: dict[int, int] = {}
    last = 0
    for pk, box in attempts:
        if pk in pks and (earlier := on_box.get(box, last)):
            found[pk] = earlier
        on_box[box] = last = pk
    return found


def _attempt(run: Run, before: Run | None) -> Attempt:
    if before is None:
        return Attempt(run=run, before=None, differences=(), image_changed=False, rebooted=False)
    compared = change.compare_launches(before.launch, run.launch)
    told = tuple(
        each
        for each in compared
        if each.name not in SAYS_ONLY and (each.before != each.after or each.name == "order")
    )
    images = before.image_id, run.image_id
    boots = before.start.around.get("boot"), run.start.around.get("boot")
    same_box = before.server.box_id == run.server.box_id
    return Attempt(
        run=run,
        before=before,
        differences=told,
        image_changed=all(images)
        and images[0] != images[1]
        and not any(each.name == "image" for each in told),
        rebooted=same_box and all(boots) and boots[0] != boots[1],
    )


# Older runs were of other versions, images and drivers.
NEWEST = 50
CHARTED = 200


@dataclass(frozen=True, kw_only=True)
class ProfileRecord:
    """None: never measured."""

    starts: int  # that came to an end: ready, or failed before it
    ready: int
    time_to_ready: timedelta | None  # median
    tokens_per_second: float | None  # the most that was seen
    memory: int | None  # bytes, the most that was seen on all GPUs together

    @property
    def is_known(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.starts or self.tokens_per_second or self.memory)

    @property
    def success(self) -> int | None:
        """Percent of the starts that reached ready."""
        return round(100 * self.ready / self.starts) if self.starts else None


def compute_record(profile: Profile) -> ProfileRecord:
    """Of the newest runs. A start that somebody stopped before it was ready says nothing.

    What is only watched was started by others: it tells of speed and memory, and is no start.
    """
    runs = list(
        Run.objects.filter(server__profile=profile)
        .select_related("health")
        .order_by("-pk")[:NEWEST]
    )
    own = [run for run in runs if not run.is_watched]
    ready = [run for run in own if run.ready_at]
    failed = [run for run in own if not run.ready_at and run.state == RunState.FAILED]
    times = [took.total_seconds() for run in ready if (took := run.time_to_ready) is not None]
    return ProfileRecord(
        starts=len(ready) + len(failed),
        ready=len(ready),
        time_to_ready=timedelta(seconds=median(times)) if times else None,
        tokens_per_second=max((run.health.peak_tokens_per_second or 0 for run in runs), default=0)
        or None,
        memory=max((run.health.peak_memory or 0 for run in runs), default=0) or None,
    )


def starts(profile: Profile) -> list[ChartedStart]:
    """Its newest starts, the oldest first. One that was stopped before it was ready says nothing."""
    ended = Q(ready_at__isnull=False) | Q(state=RunState.FAILED, ended_at__isnull=False)
    # How long a start takes is told by those of others, too, where it was seen from its beginning.
    runs = Run.objects.filter(ended, server__profile=profile, saw_start=True).order_by("-pk")
    runs = runs.select_related("server__box", "version", "start").defer(
        "start__command", "start__docker_run", "failure_detail", "version__spec"
    )
    return [_start(run) for run in reversed(runs[:CHARTED])]


def _start(run: Run) -> ChartedStart:
    over = run.ready_at or run.ended_at
    assert over is not None
    return ChartedStart(
        run=run.pk,
        server=run.server.slug,
        box=run.server.box.slug,
        version=run.version.number,
        when=run.created_at,
        took=max((over - run.began_at).total_seconds(), 0.0),
        is_ready=run.ready_at is not None,
        parts=_parts(run, over),
    )


def _parts(run: Run, over: datetime) -> dict[str, float]:
    """Seconds of each state and phase until then; {} where no phase of the start is known."""
    if run.started_at is not None and not run_starts.read_progress(run).moments:
        return {}
    moments = [
        ("queued", run.began_at),
        ("pulling", run.start.pulling_at),
        ("creating", run.start.creating_at),
    ]
    # What it has waited for others is none of its start's.
    begins = [(name, max(at, run.began_at)) for name, at in moments if at is not None]
    ends = [*(at for _name, at in begins[1:]), run.started_at or over]
    before = {
        name: max((end - at).total_seconds(), 0.0)
        for (name, at), end in zip(begins, ends, strict=True)
    }
    return before | start_progress.durations(run_starts.list_stretches(run))
