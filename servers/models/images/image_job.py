"""Image jobs: asked for in a row by the web, done by the box's watcher."""

from datetime import timedelta
from typing import Any, Self

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.people.user import User
from servers.models.profiles.profile import Profile, ProfileVersion

# How long a page tells of one that is over.
TOLD_FOR = timedelta(days=1)


class JobQuerySet(models.QuerySet["ImageJob"]):
    def open(self) -> Self:
        return self.filter(state__in=OPEN)

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


class ImageJobKind(models.TextChoices):
    PULL = "pull"
    BUILD = "build"
    MOVE = "move"  # a tag, to another image that the box has
    PRUNE = "prune"


class ImageJobState(models.TextChoices):
    ASKED = "asked"
    DOING = "doing"
    HELD = "held"  # something speaks against it: a person decides
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ImageJob(models.Model):
    Kind = ImageJobKind
    State = ImageJobState

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="image_jobs")
    kind = models.CharField(max_length=10, choices=ImageJobKind)
    # The name that the image is to have; "" for a prune.
    reference = models.CharField(max_length=500, blank=True)
    digest = models.CharField(max_length=100, blank=True)  # to be pulled instead, tag untouched
    # Ids of images: those that may go (prune), the one that the tag is to mean (move).
    images: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    version = models.ForeignKey(  # whose Dockerfile is built
        ProfileVersion, null=True, on_delete=models.CASCADE, related_name="+"
    )
    state = models.CharField(max_length=10, choices=ImageJobState, default=ImageJobState.ASKED)
    cancel_requested = models.BooleanField(default=False)  # somebody has pressed Cancel
    despite = models.BooleanField(default=False)  # what it was held for
    # A pull's layers, as servers.host.images.images.Layer says them.
    layers: "models.JSONField[list[dict[str, Any]], list[dict[str, Any]]]" = models.JSONField(
        default=list
    )
    # Bytes of a pull, steps of a build.
    done = models.BigIntegerField(default=0)
    total = models.BigIntegerField(null=True)
    # Whether the registry has told how much it is; else total grows as Docker begins layers.
    is_whole = models.BooleanField(default=False)
    rate = models.FloatField(null=True)  # bytes a second, of the last seconds
    free = models.BigIntegerField(null=True)  # on Docker's disk when it began, bytes
    said = models.TextField(blank=True)  # one or two sentences for a person
    image_id = models.CharField(max_length=80, blank=True)
    lines = models.PositiveIntegerField(default=0)  # of a build's log
    asked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField(default=timezone.now)
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(default=timezone.now)
    dismissed = models.BooleanField(default=False)  # somebody has read what came of it

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            # Two clicks, or two browsers: the second one fails here.
            models.UniqueConstraint(
                fields=["box", "reference", "kind"],
                condition=models.Q(state__in=["asked", "doing", "held"]),
                name="one_open_job_an_image",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.reference}"

    @property
    def is_open(self) -> bool:
        return self.state in OPEN

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
        if not self.total or (self.kind == self.Kind.PULL and not self.is_whole):
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


OPEN = [ImageJob.State.ASKED, ImageJob.State.DOING, ImageJob.State.HELD]


class JobLog(models.Model):
    """A piece of what a build printed; `first` is the number of its first line, from 1."""

    job = models.ForeignKey(ImageJob, on_delete=models.CASCADE, related_name="log")
    first = models.PositiveIntegerField()
    text = models.TextField()

    class Meta:
        ordering = ["first"]

    def __str__(self) -> str:
        return f"log of {self.job_id} from {self.first}"
