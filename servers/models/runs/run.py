"""One container's life, from the click to the exit.

    queued ──> pulling ──> creating ──> starting ──> ready ──> stopping ──> stopped
       │          │           │            │           │           │
       └──────────┴───────────┴────────────┴───────────┴───────────┴──────> failed

Workers and watchers move a run forward, each move being one UPDATE that only one of
them wins. People never move it: they set what they want (wanted), which the worker obeys.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, cast

from django.db import models, transaction
from django.utils import timezone

from servers.launch.engines import parameters
from servers.launch.engines.launch import Launch
from servers.models.people.user import User
from servers.models.profiles.profile import ProfileVersion
from servers.models.runs.run_parts import RunHealth, RunLog, RunPlan, RunStart
from servers.models.runs.server import Server

if TYPE_CHECKING:
    from servers.models.runs.ownership import ExternalRun, ManagedRun


class RunState(models.TextChoices):
    QUEUED = "queued"
    PULLING = "pulling"
    CREATING = "creating"
    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


ENDED = [RunState.STOPPED, RunState.FAILED]
ACTIVE = [state for state in RunState if state not in ENDED]

# Where the moment is kept at which a run got into a state, beside those that callers set.
BEGAN = {
    RunState.PULLING: "start__pulling_at",
    RunState.CREATING: "start__creating_at",
    RunState.STOPPING: "stopping_at",
}

# Whoever has served for so long has recovered: failures are counted anew.
STEADY = timedelta(minutes=10)
# After it is ready, until its engine has been asked what it serves.
UNASKED = timedelta(seconds=10)


class Sleep(models.TextChoices):
    AWAKE = ""
    FALLING = "falling"  # asleep within moments; nothing is passed on to it any more
    ASLEEP = "asleep"
    WAKING = "waking"


class DesiredState(models.TextChoices):
    RUNNING = "running"
    STOPPED = "stopped"
    DRAINED = "drained"  # stopped, but only after the running requests


class RunQuerySet[R: "Run"](models.QuerySet[R]):
    def active(self) -> Self:
        """Runs that hold, or are about to hold, a container."""
        return self.filter(state__in=ACTIVE)

    def filter_managed(self) -> "RunQuerySet[ManagedRun]":
        return cast("RunQuerySet[ManagedRun]", self.filter(is_watched=False))

    def filter_external(self) -> "RunQuerySet[ExternalRun]":
        return cast("RunQuerySet[ExternalRun]", self.filter(is_watched=True))

    def fetch_any(self) -> list[R]:
        """The rows, for what asks each second and mostly finds none: without a row, that takes a
        sixth of the time, as no statement with all of the columns is made."""
        return list(self) if self.exists() else []

    def good(self) -> "Self":
        """Runs that became ready, and did not answer nonsense then."""
        faulty = "health__first_answer__is_faulty"
        answered = models.Q(**{f"{faulty}__isnull": True}) | models.Q(**{faulty: False})
        return self.filter(answered, ready_at__isnull=False)

    def last_good(self, servers: Iterable[int]) -> "dict[int, Run]":
        """By server, the latest that worked, with its version."""
        good = self.good().filter(server__in=servers).order_by()
        latest = good.values("server").annotate(last=models.Max("pk")).values("last")
        found = self.model._default_manager.filter(pk__in=latest).select_related(
            "version", "plan", "start", "health"
        )
        return {run.server_id: run for run in found}

    def create(self, **kwargs: Any) -> R:
        run = self.model.build(**kwargs)
        run.save(force_insert=True, using=self.db)
        return run

    def write(self, **fields: Any) -> int:
        """update() of the run and its other tables, "start__pull" and the like, or of none."""
        own, parts = _split_by_table(fields)
        if not parts:
            return self.update(**own)
        with transaction.atomic():
            # Locked: what the filters say of them holds until all tables are written.
            locked = self.order_by().select_related(None).select_for_update(of=("self",))
            keys = [run.pk for run in locked.only("pk")]
            if keys and own:
                self.model._default_manager.filter(pk__in=keys).update(**own)
            for name, values in parts.items() if keys else ():
                PARTS[name]._default_manager.filter(run__in=keys).update(**values)
        return len(keys)

    def move(self, *, old: "list[RunState]", new: "RunState", **fields: Any) -> bool:
        """Change the state in one UPDATE, and return whether this call won the race."""
        now = timezone.now()
        if new in BEGAN:
            fields[BEGAN[new]] = now
        return self.filter(state__in=old).write(state=new, moved_at=now, **fields) == 1


# A run's other tables: a row of each is made with it.
PARTS: "dict[str, type[RunPlan | RunStart | RunLog | RunHealth]]" = {
    "plan": RunPlan,
    "start": RunStart,
    "log": RunLog,
    "health": RunHealth,
}


def _split_by_table(fields: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The run's own values, and by part those of "start__pull" and the like."""
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, value in fields.items():
        part, _, column = name.partition("__")
        if column:
            parts[part][column] = value
        else:
            own[name] = value
    return own, parts


class Run(models.Model):
    """The hot row: what it is, its state, its moments, where it answers."""

    State = RunState
    Wanted = DesiredState

    server = models.ForeignKey(Server, on_delete=models.CASCADE, related_name="runs")
    version = models.ForeignKey(ProfileVersion, on_delete=models.PROTECT, related_name="runs")
    state = models.CharField(max_length=10, choices=RunState, default=RunState.QUEUED)
    wanted = models.CharField(max_length=10, choices=DesiredState, default=DesiredState.RUNNING)
    started_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    stopped_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    # A request wanted it, and nobody who clicked: it may be stopped when no one asks it anything.
    on_request = models.BooleanField(default=False)
    # Set by Restart: who gets the next run as soon as this one has ended.
    restart_for = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")

    created_at = models.DateTimeField(default=timezone.now, db_index=True)  # the click
    moved_at = models.DateTimeField(default=timezone.now)  # the last change of state
    started_at = models.DateTimeField(null=True)  # the container's start
    ready_at = models.DateTimeField(null=True)
    stop_requested_at = models.DateTimeField(null=True)
    stopping_at = models.DateTimeField(null=True)  # SIGTERM
    kill_at = models.DateTimeField(null=True)  # when the grace after SIGTERM is over
    ended_at = models.DateTimeField(null=True)

    container_id = models.CharField(max_length=64, blank=True)
    image_id = models.CharField(max_length=80, blank=True)
    # "all", "none" or indices: what the profile's "2x RTX PRO 6000" came to. "": not chosen yet.
    gpus = models.CharField(max_length=300, blank=True)

    # Where the engine answers, as seen from its own box.
    address = models.GenericIPAddressField(null=True)
    port = models.PositiveIntegerField(null=True)
    served_name = models.CharField(max_length=200, blank=True)

    # Why inferdash itself ended it although nobody had asked, in a sentence; "" where it did not.
    given_up = models.TextField(blank=True)
    # When inferdash starts the next one by itself, after this one's end; None: it does not.
    restart_at = models.DateTimeField(null=True)
    # Why it does not, or what it waits for: a sentence.
    status_message = models.TextField(blank=True)
    exit_code = models.IntegerField(null=True)
    oom_killed = models.BooleanField(default=False)
    failure = models.TextField(blank=True)  # one sentence for a person
    failure_detail = models.TextField(blank=True)  # Docker's or the engine's own words
    # The container's id once it was removed: a process may outlive even that.
    container_was = models.CharField(max_length=64, blank=True, db_index=True)
    # Since when no more of its memory is expected back.
    released_at = models.DateTimeField(null=True)

    sleep = models.CharField(max_length=8, choices=Sleep, blank=True, default=Sleep.AWAKE)
    sleep_moved_at = models.DateTimeField(null=True)
    # Since when somebody wants it awake; None: nobody does.
    wake_wanted_at = models.DateTimeField(null=True)

    # Somebody told it to wait until nobody is on its GPUs, and until when; None: for ever.
    waits = models.BooleanField(default=False)
    waits_until = models.DateTimeField(null=True)
    # When it no longer had to: from then on it may be short of memory for a while, not for ever.
    turn_at = models.DateTimeField(null=True)
    # Runs that it waits for, as last seen.
    waits_for = models.ManyToManyField("self", symmetrical=False, related_name="waited_for_by")

    is_watched = models.BooleanField(default=False)
    # False: it was found when it ran already, so that nobody knows how long its start took.
    saw_start = models.BooleanField(default=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]
        constraints = [
            # Two clicks, two browsers or a repeated task: the second one fails here.
            models.UniqueConstraint(
                fields=["server"],
                condition=models.Q(state__in=[str(state) for state in ACTIVE]),
                name="one_active_run_a_server",
            )
        ]
        indexes = [models.Index(fields=["server", "-created_at"])]

    def __str__(self) -> str:
        return f"{self.server} run {self.pk}"

    def save(self, *args: Any, **options: Any) -> None:
        is_new = self._state.adding
        with transaction.atomic():
            super().save(*args, **options)
            for name, table in PARTS.items() if is_new else ():
                part = self._state.fields_cache.get(name) or table()
                part.run = self
                part.save(force_insert=True)

    @classmethod
    def build(cls, **fields: Any) -> Self:
        """One that is not saved yet, with its other tables: `plan__values` and the like."""
        own, parts = _split_by_table(fields)
        run = cls(**own)
        for name, table in PARTS.items():
            setattr(run, name, table(**parts.get(name, {})))
        return run

    @property
    def launch(self) -> Launch:
        """Its version's with its parameters, and the commit of the checkpoint of a repeated run."""
        launch = parameters.fill(self.version.launch, self.plan.values)
        commit = self.plan.repeats.start.checkpoint_revision if self.plan.repeats else ""
        return replace(launch, revision=commit) if commit else launch

    @property
    def image_to_pull(self) -> str:
        """A reference for a registry. A repeated run's digest names its very image, if it has one."""
        return (
            self.plan.repeats.start.image_digest if self.plan.repeats else ""
        ) or self.version.launch.image

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def has_whole_log(self) -> bool:
        """Whether no line can come any more."""
        return self.log.is_complete or not (self.is_active or self.container_id)

    @property
    def without_lines(self) -> str:
        """What stands where its lines would, as long as none is stored."""
        if self.keeps_no_log:
            return "Its log cannot be read here: the overview says why."
        if self.is_active:
            return "Nothing yet. Lines appear here as the engine writes them."
        if self.container_id:
            return "No line of it was stored."
        return "No log: the container was not created."

    @property
    def sleeps(self) -> bool:
        """Whether it answers nobody because it sleeps, or is about to."""
        return self.state == RunState.READY and self.sleep != Sleep.AWAKE

    @property
    def sleep_trouble(self) -> str:
        """Why it could not be woken the last time; "" where it could."""
        return str(self.health.sleep_info.get("trouble", "")) if self.sleeps else ""

    @property
    def why(self) -> str:
        """The sentence that says most of why it ended."""
        return self.log.diagnosis["summary"] if self.log.cause else self.failure

    @property
    def began_at(self) -> datetime:
        """The click; of one that has waited for others, when its turn came."""
        return self.turn_at or self.created_at

    @property
    def is_waiting(self) -> bool:
        """Whether it was told to wait, and still does."""
        return self.waits and self.state == RunState.QUEUED

    @property
    def is_unhealthy(self) -> bool:
        return self.state == RunState.READY and self.health.unhealthy_since is not None

    @property
    def is_of_process(self) -> bool:
        """Whether it is a process in no container."""
        return self.is_watched and bool(self.start.origin.get("is_process"))

    @property
    def keeps_no_log(self) -> bool:
        """Whether nothing of what it prints can be read here; `start.no_log` may say why."""
        return self.is_watched and self.start.origin.get("has_log") is False

    @property
    def shown_state(self) -> str:
        """The state in a word for people, who see at once that their wish was heard."""
        if self.sleeps and self.wanted == DesiredState.RUNNING:
            return "waking" if self.sleep == Sleep.WAKING else "asleep"
        if not self.is_active or self.wanted == DesiredState.RUNNING:
            return self.state
        if self.wanted == DesiredState.DRAINED and self.state == RunState.READY:
            return "draining"
        return RunState.STOPPING

    @property
    def shown_since(self) -> datetime:
        """Since when that is its state."""
        return self.sleep_moved_at or self.moved_at if self.sleeps else self.moved_at

    def concerns_others(self, person: User) -> bool:
        """Whether stopping it would take something from somebody else, or from requests.

        Where the engine does not say whether any run, they may. In its first seconds nobody has
        asked it anything, and the engine has not been asked for its figures yet.
        """
        is_untold = self.health.requests_running is None and self.state == RunState.READY
        is_new = self.ready_at is not None and timezone.now() - self.ready_at < UNASKED
        may_run = bool(self.health.requests_running) or (is_untold and not is_new)
        return may_run or self.started_by_id != person.pk

    @property
    def next_try(self) -> int:
        """Which automatic start in a row the next one would be."""
        # An engine that has been dead inside for hours has not served for hours.
        until = self.health.unhealthy_since or self.ended_at or timezone.now()
        served = until - self.ready_at if self.ready_at else None
        return 1 if served is not None and served >= STEADY else self.plan.attempts + 1

    @property
    def time_to_ready(self) -> timedelta | None:
        return self.ready_at - self.began_at if self.ready_at and self.saw_start else None

    @property
    def time_to_stop(self) -> timedelta | None:
        if self.ended_at is None or self.stop_requested_at is None:
            return None
        return self.ended_at - self.stop_requested_at
