"""One container's life, from the click to the exit.

    queued ──> pulling ──> creating ──> starting ──> ready ──> stopping ──> stopped
       │          │           │            │           │           │
       └──────────┴───────────┴────────────┴───────────┴───────────┴──────> failed

Workers and watchers move a run forward, each move being one UPDATE that only one of
them wins. People never move it: they set what they want (wanted), which the worker obeys.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Self

from django.db import models
from django.utils import timezone

from servers.launch.engines import parameters
from servers.launch.engines.launch import Launch
from servers.models.people.user import User
from servers.models.profiles.profile import ProfileVersion
from servers.models.runs.run_parts import (
    DiagnosisFields,
    ExternalFields,
    QueueFields,
    ReleaseFields,
    ServingFields,
    Sleep,
    SleepFields,
    StartFields,
)
from servers.models.runs.server import Server


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
    RunState.PULLING: "pulling_at",
    RunState.CREATING: "creating_at",
    RunState.STOPPING: "stopping_at",
}

# Whoever has served for so long has recovered: failures are counted anew.
STEADY = timedelta(minutes=10)
# After it is ready, until its engine has been asked what it serves.
UNASKED = timedelta(seconds=10)


class DesiredState(models.TextChoices):
    RUNNING = "running"
    STOPPED = "stopped"
    DRAINED = "drained"  # stopped, but only after the running requests


class RunQuerySet(models.QuerySet["Run"]):
    def active(self) -> Self:
        """Runs that hold, or are about to hold, a container."""
        return self.filter(state__in=ACTIVE)

    def fetch_any(self) -> "list[Run]":
        """The rows, for what asks each second and mostly finds none: without a row, that takes a
        sixth of the time, as no statement with all of the columns is made."""
        return list(self) if self.exists() else []

    def good(self) -> "Self":
        """Runs that became ready, and did not answer nonsense then."""
        faulty = "first_answer__is_faulty"
        answered = models.Q(**{f"{faulty}__isnull": True}) | models.Q(**{faulty: False})
        return self.filter(answered, ready_at__isnull=False)

    def last_good(self, servers: Iterable[int]) -> "dict[int, Run]":
        """By server, the latest that worked, with its version."""
        good = self.good().filter(server__in=servers).order_by()
        latest = good.values("server").annotate(last=models.Max("pk")).values("last")
        found = self.model._default_manager.filter(pk__in=latest).select_related("version")
        return {run.server_id: run for run in found}

    def move(self, *, old: "list[RunState]", new: "RunState", **fields: Any) -> bool:
        """Change the state in one UPDATE, and return whether this call won the race."""
        now = timezone.now()
        if new in BEGAN:
            fields[BEGAN[new]] = now
        return self.filter(state__in=old).update(state=new, moved_at=now, **fields) == 1


class Run(
    StartFields,
    ServingFields,
    SleepFields,
    DiagnosisFields,
    ReleaseFields,
    QueueFields,
    ExternalFields,
):
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

    # What the server had its own values for when it was asked for.
    values: "models.JSONField[dict[str, str], dict[str, str]]" = models.JSONField(default=dict)

    created_at = models.DateTimeField(default=timezone.now, db_index=True)  # the click
    moved_at = models.DateTimeField(default=timezone.now)  # the last change of state
    pulling_at = models.DateTimeField(null=True)
    creating_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)  # the container's start
    ready_at = models.DateTimeField(null=True)
    stop_requested_at = models.DateTimeField(null=True)
    stopping_at = models.DateTimeField(null=True)  # SIGTERM
    kill_at = models.DateTimeField(null=True)  # when the grace after SIGTERM is over
    ended_at = models.DateTimeField(null=True)

    # Pulling: bytes so far and in all; None until Docker tells.
    pulled = models.BigIntegerField(null=True)
    pull_total = models.BigIntegerField(null=True)

    # What a tag cannot say.
    container_id = models.CharField(max_length=64, blank=True)
    image_id = models.CharField(max_length=80, blank=True)
    image_digest = models.CharField(max_length=300, blank=True)
    checkpoint_revision = models.CharField(max_length=64, blank=True)
    engine_version = models.CharField(max_length=60, blank=True)
    command: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    # What Docker was asked for, as a command; "": before it was kept, or not started by inferdash.
    docker_run = models.TextField(blank=True)
    # "all", "none" or indices: what the profile's "2x RTX PRO 6000" came to. "": not chosen yet.
    gpus = models.CharField(max_length=300, blank=True)

    # Encrypted: the secrets that the container was given. A replaced one stays masked in what
    # it prints. Forgotten when its log is whole.
    given = models.BinaryField(null=True)

    # Where the engine answers, as seen from its own box.
    address = models.GenericIPAddressField(null=True)
    port = models.PositiveIntegerField(null=True)
    served_name = models.CharField(max_length=200, blank=True)

    # What the engine last said of itself. None: it does not say.
    requests_running = models.PositiveIntegerField(null=True)
    last_request_at = models.DateTimeField(null=True)
    tokens_per_second = models.FloatField(null=True)

    # The most that was seen of it. None: never measured.
    peak_tokens_per_second = models.FloatField(null=True)
    peak_memory = models.BigIntegerField(null=True)  # bytes on all its GPUs together

    # Why it was started although the check had found an error; "" where it had not.
    despite = models.CharField(max_length=300, blank=True)
    restart_despite = models.CharField(max_length=300, blank=True)  # for the next one

    # Why inferdash itself ended it although nobody had asked, in a sentence; "" where it did not.
    given_up = models.TextField(blank=True)
    # While it loads on unified memory: that the machine has little left, a sentence; "": enough.
    memory_warning = models.TextField(blank=True)
    # Which automatic start in a row it is; 0: a person wanted it.
    tries = models.PositiveIntegerField(default=0)
    # When inferdash starts the next one by itself, after this one's end; None: it does not.
    restart_at = models.DateTimeField(null=True)
    status_message = models.TextField(
        blank=True
    )  # why it does not, or what it waits for: a sentence
    # The image id to run instead of what the profile's reference means by now; "": not set.
    pinned_image = models.CharField(max_length=80, blank=True)
    # The earlier run that it repeats, with its version, image and commit of the checkpoint.
    like = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    # Bytes of a unified pool that no GPU process held when the container was made; None elsewhere.
    unattributed_at_start = models.BigIntegerField(null=True)
    exit_code = models.IntegerField(null=True)
    oom_killed = models.BooleanField(default=False)
    failure = models.TextField(blank=True)  # one sentence for a person
    failure_detail = models.TextField(blank=True)  # Docker's or the engine's own words
    last_lines: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)

    log_lines = models.PositiveIntegerField(default=0)  # so far, with those cut out since
    log_size = models.BigIntegerField(default=0)  # bytes of text that are kept
    # Lines cut out to bound it: {"first", "last": numbers, "from", "to": the stamps of all between}.
    log_gap: "models.JSONField[dict[str, Any] | None, dict[str, Any] | None]" = models.JSONField(
        null=True
    )
    # Lines up to here were looked through for the texts that the profile wants or does not want;
    # of each that was found, the number of its first line.
    log_searched = models.PositiveIntegerField(default=0)
    log_found: "models.JSONField[dict[str, int], dict[str, int]]" = models.JSONField(default=dict)
    log_complete = models.BooleanField(default=False)  # compared with Docker's after the end

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

    @property
    def launch(self) -> Launch:
        """Its version's with its parameters, and the commit of the checkpoint of a repeated run."""
        launch = parameters.fill(self.version.launch, self.values)
        commit = self.like.checkpoint_revision if self.like else ""
        return replace(launch, revision=commit) if commit else launch

    @property
    def image_to_pull(self) -> str:
        """A reference for a registry. A repeated run's digest names its very image, if it has one."""
        return (self.like.image_digest if self.like else "") or self.version.launch.image

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def has_whole_log(self) -> bool:
        """Whether no line can come any more."""
        return self.log_complete or not (self.is_active or self.container_id)

    @property
    def without_lines(self) -> str:
        """What stands where its lines would, as long as none is stored."""
        if self.keeps_no_log:
            return "Its log cannot be read here: above it says why."
        if self.is_active:
            return "Nothing yet. Lines appear here as the engine writes them."
        if self.container_id:
            return "No line of it was stored."
        return "It had no container, and so no log."

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
        is_untold = self.requests_running is None and self.state == RunState.READY
        is_new = self.ready_at is not None and timezone.now() - self.ready_at < UNASKED
        may_run = bool(self.requests_running) or (is_untold and not is_new)
        return may_run or self.started_by_id != person.pk

    @property
    def next_try(self) -> int:
        """Which automatic start in a row the next one would be."""
        # An engine that has been dead inside for hours has not served for hours.
        until = self.unhealthy_since or self.ended_at or timezone.now()
        served = until - self.ready_at if self.ready_at else None
        return 1 if served is not None and served >= STEADY else self.tries + 1

    @property
    def time_to_ready(self) -> timedelta | None:
        return self.ready_at - self.began_at if self.ready_at and self.saw_start else None

    @property
    def time_to_stop(self) -> timedelta | None:
        if self.ended_at is None or self.stop_requested_at is None:
            return None
        return self.ended_at - self.stop_requested_at
