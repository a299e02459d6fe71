"""Jobs: long work on a box that a person asks for in a row and the box's watcher does."""

import hashlib
import json
from datetime import timedelta
from typing import Any, Self

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.json_values import Json, JsonRow, JsonValue
from servers.models.people.user import User
from servers.models.profiles import Profile, ProfileVersion

# How long a page tells what came of one.
TOLD_FOR = timedelta(days=1)
_STANDS = 1024  # bytes a second: with less nobody could say when it ends


class JobKind(models.TextChoices):
    KILL = "kill"  # a process that outlived its container
    UNLINK = "unlink"  # shared memory that nobody uses
    ADOPT = "adopt"  # a container that no run knows becomes one
    REMOVE = "remove"  # a container
    RECLAIM = "reclaim"  # page cache and what the driver keeps
    WATCH = "watch"  # a container of somebody else's
    DELETE = "delete"  # a model from its disks
    PROFILE = "profile"  # made of what somebody else has started
    TAKE_OVER = "takeover"  # somebody else's stopped, its profile started
    PULL = "pull"
    BUILD = "build"
    MOVE = "move"  # a tag, to another image that the box has
    PRUNE = "prune"
    DOWNLOAD = "download"  # a model from the Hub
    BENCHMARK = "benchmark"  # a check-up of a server
    CANARY = "canary"  # a check-up of its answers


OF_IMAGES = (JobKind.PULL, JobKind.BUILD, JobKind.MOVE, JobKind.PRUNE)
_LONG = (*OF_IMAGES, JobKind.DOWNLOAD, JobKind.BENCHMARK, JobKind.CANARY)
ACTIONS = tuple(kind for kind in JobKind if kind not in _LONG)


class JobState(models.TextChoices):
    ASKED = "asked"  # waits for its turn, or for the watcher
    DOING = "doing"
    CHECKING = "checking"  # of a download: the Hub, the licence, the room on the disk
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"  # all of it is there, and looked through
    HELD = "held"  # something speaks against it: a person decides
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    REFUSED = "refused"  # an action that was not done, or failed
    CANCELLED = "cancelled"


OVER = (JobState.DONE, JobState.FAILED, JobState.REFUSED, JobState.CANCELLED)
OPEN = tuple(state for state in JobState if state not in OVER)
AT_WORK = (JobState.DOING, JobState.CHECKING, JobState.DOWNLOADING, JobState.VERIFYING)


class DesiredJobState(models.TextChoices):
    GO = "go"
    PAUSED = "paused"
    CANCELLED = "cancelled"


class JobQuerySet[J: "Job"](models.QuerySet[J]):
    def for_page(self) -> Self:
        """What a page shows: those that go on, and those of the last day, the newest first."""
        is_recent = models.Q(ended_at__gt=timezone.now() - TOLD_FOR, dismissed=False)
        return self.filter(models.Q(state__in=OPEN) | is_recent)

    def seen_by(self, person: User) -> Self:
        """Without builds of profiles that are not for their eyes."""
        seen = Profile.objects.seen_by(person)
        return self.filter(models.Q(version=None) | models.Q(version__profile__in=seen))

    def mark(self) -> str:
        """Another text whenever something about any of them has changed."""
        found = self.aggregate(models.Max("changed_at"), models.Count("pk"))
        return f"{found['changed_at__max']} {found['pk__count']}"


class JobManager[J: "Job"](models.Manager[J]):
    def __init__(self, *kinds: JobKind) -> None:
        super().__init__()
        self.kinds = kinds

    def get_queryset(self) -> JobQuerySet[J]:
        found: JobQuerySet[J] = JobQuerySet(self.model, using=self._db)
        return found.filter(kind__in=self.kinds) if self.kinds else found

    def open(self) -> JobQuerySet[J]:
        return self.get_queryset().filter(state__in=OPEN)

    def for_page(self) -> JobQuerySet[J]:
        return self.get_queryset().for_page()

    def seen_by(self, person: User) -> JobQuerySet[J]:
        return self.get_queryset().seen_by(person)

    def mark(self) -> str:
        return self.get_queryset().mark()


class Job(JsonRow):
    """The web writes what is wanted, the box's watcher does it or says why not."""

    Kind = JobKind
    State = JobState
    Wanted = DesiredJobState

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="jobs")
    kind = models.CharField(max_length=10, choices=JobKind)
    # What it is done to: one open job a kind and target. "" for the box itself.
    target = models.CharField(max_length=500, blank=True)
    what = models.CharField(max_length=500, blank=True)  # the same for people
    # How it is to be done, in the words of its kind; written by the web.
    params: Json[dict[str, Any]] = models.JSONField(default=dict)
    version = models.ForeignKey(  # whose Dockerfile is built
        ProfileVersion, null=True, on_delete=models.CASCADE, related_name="+"
    )
    state = models.CharField(max_length=12, choices=JobState, default=JobState.ASKED)
    wanted = models.CharField(max_length=10, choices=DesiredJobState, default=DesiredJobState.GO)
    # Bytes of a pull or download, steps of a build.
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(null=True)
    rate = models.FloatField(null=True)  # bytes a second, of the last seconds
    # What else is known of it, in the words of its kind; written by the watcher.
    result: Json[dict[str, Any]] = models.JSONField(default=dict)
    said = models.TextField(blank=True)  # one or two sentences on what came of it
    asked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField(default=timezone.now)
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(default=timezone.now)
    dismissed = models.BooleanField(default=False)  # somebody has read what came of it

    # To be typed on the box where inferdash may not; or the way back.
    command = JsonValue[str]("result", "")
    advice = JsonValue[str]("result", "")  # of a failed one
    detail = JsonValue[str]("result", "")  # of its failure, in Docker's own words
    was_cut = JsonValue[bool]("result", False)  # it ended with its watcher
    # Names of what it has made, or brought back.
    profile = JsonValue[str]("result", "")
    server = JsonValue[str]("result", "")

    objects = JobManager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            # Two clicks, or two browsers: the second one fails here.
            models.UniqueConstraint(
                fields=["box", "kind", "target"],
                condition=models.Q(state__in=OPEN),
                name="one_open_job_a_target",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.what}"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def is_at_work(self) -> bool:
        return self.state in AT_WORK

    @property
    def cancel_requested(self) -> bool:
        return self.wanted == DesiredJobState.CANCELLED

    @property
    def verb(self) -> str:
        """As the audit log has it."""
        return f"{self.kind} image" if self.kind in OF_IMAGES else self.kind

    @property
    def subject(self) -> str:
        return self.what or "unused images"

    def move(self, to: JobState, **values: Any) -> bool:
        """Into a state; False where somebody was faster."""
        was = self.state
        values |= {"state": to} | ({"ended_at": timezone.now()} if to in OVER else {})
        mine = Job.objects.filter(pk=self.pk, state=was)
        return bool(mine.update(**self.columns(**values)))

    def columns(self, **values: Any) -> dict[str, Any]:
        return super().columns(**values) | {"changed_at": timezone.now()}


class ImageJob(Job):
    reference = JsonValue[str]("what")  # the name that the image is to have; "" for a prune
    digest = JsonValue[str]("params", "")  # to be pulled instead, tag untouched
    # Ids of images: those that may go (prune), the one that the tag is to mean (move).
    images = JsonValue[list[str]]("params", [])
    despite = JsonValue[bool]("params", False)  # what it was held for
    for_start = JsonValue[bool]("params", False)  # nobody else has asked for it
    # A pull's layers, as servers.host.images.images.Layer says them.
    layers = JsonValue[list[dict[str, Any]]]("result", [])
    # Whether the registry has told how much it is; else total grows as Docker begins layers.
    is_whole = JsonValue[bool]("result", False)
    free = JsonValue[int | None]("result")  # on Docker's disk when it began, bytes
    image_id = JsonValue[str]("result", "")
    lines = JsonValue[int]("result", 0)  # of a build's log

    objects = JobManager(*OF_IMAGES)  # type: ignore[misc]

    class Meta:
        proxy = True

    @property
    def mark(self) -> str:
        """Another text whenever people are shown something else."""
        return f"{self.state} {self.cancel_requested} {self.changed_at.isoformat()}"

    @property
    def source(self) -> str:
        """What is asked of the registry."""
        if not self.digest:
            return self.reference
        head, _slash, last = self.reference.rpartition("/")
        name = last.partition(":")[0]
        return f"{head}/{name}@{self.digest}" if head else f"{name}@{self.digest}"

    @property
    def percent(self) -> int | None:
        """Whole percent; None while nobody knows how much it is."""
        if not self.total or (self.kind == JobKind.PULL and not self.is_whole):
            return None
        return min(int(self.done * 100 / self.total), 100)

    @property
    def left(self) -> timedelta | None:
        """How long it may still take, as fast as it has been lately; None: nobody can tell."""
        if not (self.is_whole and self.total and self.rate) or self.done >= self.total:
            return None
        return timedelta(seconds=(self.total - self.done) / self.rate)

    @property
    def unpacking(self) -> bool:
        """Whether everything has come and only the disk is busy."""
        busy = any(each["state"] == "extracting" for each in self.layers)
        return busy and not any(each["state"] == "downloading" for each in self.layers)


class DownloadManager(JobManager["Download"]):
    def for_page(self) -> JobQuerySet["Download"]:
        """What goes on, oldest first, then what came of those of the last day."""
        found = super().for_page().select_related("box", "asked_by")
        return found.order_by(
            models.ExpressionWrapper(models.Q(state__in=OVER), models.BooleanField()).asc(), "pk"
        )


class Download(Job):
    """A model that somebody wants from the Hub on a box; `target` is key_of() what is wanted."""

    repository = JsonValue[str]("what")
    revision = JsonValue[str]("params", "main")  # as asked for
    # Names of files, with * in them; [":Q4_K_M"]: a quantization; []: what engines load.
    patterns = JsonValue[list[str]]("params", [])
    into = JsonValue[str](
        "params", ""
    )  # a folder with models of the box; "": its Hugging Face cache
    limit = JsonValue[int]("params", 0)  # bytes a second; 0: none
    drops_parts = JsonValue[bool]("params", False)  # of a cancelled one
    commit = JsonValue[str]("result", "")  # what the revision was when it began
    folder = JsonValue[str]("result", "")  # of the box; "" until it is known
    # host.weights.fetch.places.File each, once the Hub was asked.
    files = JsonValue[list[dict[str, Any]]]("result", [])
    # By name the size and time of files that were looked through.
    verified = JsonValue[dict[str, list[int]]]("result", {})
    looked = JsonValue[int]("result", 0)  # bytes that were looked through
    trouble = JsonValue[str]("result", "")  # it tries on

    objects = DownloadManager(JobKind.DOWNLOAD)  # type: ignore[misc]

    class Meta:
        proxy = True
        ordering = ["pk"]

    def __str__(self) -> str:
        return self.what

    def save(self, *args: Any, **values: Any) -> None:
        self.kind = JobKind.DOWNLOAD
        super().save(*args, **values)

    @property
    def status(self) -> str:
        """Its state in the words of pages and of the API."""
        return "waiting" if self.state == JobState.ASKED else self.state

    @property
    def percent(self) -> int | None:
        """Whole percent that are there; of one that is looked through, that was looked at."""
        if not self.total:
            return None
        part = self.looked if self.state == JobState.VERIFYING else self.done
        return min(100, part * 100 // self.total)

    @property
    def left(self) -> float | None:
        """Seconds, at the pace of now; None where nobody can tell."""
        rate = self.rate or 0
        if self.state != JobState.DOWNLOADING or rate < _STANDS or self.total is None:
            return None
        return max(0.0, (self.total - self.done) / rate)

    @property
    def mark(self) -> str:
        """Another text whenever what people are shown is another."""
        return f"{self.status} {self.wanted} {self.percent} {self.trouble} {self.limit}"


class BenchmarkJob(Job):
    """A check-up of the server `what`; its target is "", so that there is one a box. One that
    does not give way has its server as the target: it may go on beside another server's."""

    run = JsonValue[int]("params", 0)
    preset = JsonValue[str]("params", "")
    gives_way = JsonValue[bool]("params", True)  # to other people's requests
    # By the names of judge.benchmarks.custom.CustomPoints; {"hour", "pace", "is_random"}.
    custom = JsonValue[dict[str, Any]]("params", {})
    replay = JsonValue[dict[str, Any]]("params", {})
    point = JsonValue[str]("result", "")  # that is being measured
    left = JsonValue[float | None]("result")  # seconds, about
    is_paused = JsonValue[bool]("result", False)  # people use the server
    dropped = JsonValue[int]("result", 0)  # rounds in which others asked

    objects = JobManager(JobKind.BENCHMARK)  # type: ignore[misc]

    class Meta:
        proxy = True


class CanaryJob(Job):
    """A canary of the server `what`; its target is "", so that there is one a box."""

    run = JsonValue[int]("params", 0)
    canary_set = JsonValue[str]("params", "")
    gives_way = JsonValue[bool]("params", True)  # to other people's requests
    is_paused = JsonValue[bool]("result", False)  # people use the server
    item = JsonValue[str]("result", "")  # that is being asked
    left = JsonValue[float | None]("result")  # seconds, at most

    objects = JobManager(JobKind.CANARY)  # type: ignore[misc]

    class Meta:
        proxy = True


class JobLog(models.Model):
    """A piece of what a build printed; `first` is the number of its first line, from 1."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="log")
    first = models.PositiveIntegerField()
    text = models.TextField()

    class Meta:
        ordering = ["first"]

    def __str__(self) -> str:
        return f"log of {self.job_id} from {self.first}"


def key_of(repository: str, revision: str, patterns: list[str], into: str) -> str:
    """The same for the same wish."""
    asked = json.dumps([repository.casefold(), revision, sorted(patterns), into])
    return hashlib.sha256(asked.encode()).hexdigest()
