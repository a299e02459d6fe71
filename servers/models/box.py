"""Boxes: a machine with GPUs, a Docker Engine and one worker; what its watcher saw, and its restarts."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.utils import timezone

from servers.launch.engines.placement import VolumeError, resolve
from servers.models.json_values import Json, JsonRow
from servers.models.people.key import Secret
from servers.models.people.user import User

if TYPE_CHECKING:
    from servers.models.people.claim import Claim

# Its watcher writes a sign of life every 10 s; three missed ones are no accident. People read
# "away"; it is a property of the box and says nothing of its runs, which go on.
SILENT_AFTER = timedelta(seconds=40)


def holds_memory(said: Mapping[str, Any]) -> bool:
    """Whether an orphan, as JSON, takes memory of the box or of a GPU: no such box is well."""
    return bool(said.get("size")) and said.get("size_of") != "disk"


class Box(models.Model):
    slug = models.SlugField(max_length=63, unique=True)  # also the queue: box.<slug>
    # Where ~ and $HOME in a profile's volumes lead on this box.
    home = models.CharField(max_length=300, blank=True)
    # Mounted into every engine unless its profile says otherwise.
    hf_cache = models.CharField("Hugging Face cache", max_length=300, blank=True)
    # One a line; "": the usual ones (lifecycle.weights.inventory).
    model_folders = models.TextField("Folders with models", blank=True, max_length=4000)
    hf_token = models.ForeignKey(
        Secret, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(null=True)
    # Of the boot that the watcher last took up; "" and None before the first.
    boot_id = models.CharField(max_length=40, blank=True)
    booted_at = models.DateTimeField(null=True)
    # What the worker found: docker {version, root}, limits {mount_roots, ...}, problems
    # [{what, fix}], gpus [{index, name, compute_capability, total, kind}], driver, faults (rules
    # of the hardware's health that say that something is wrong), left_out {part of hardening that
    # Docker refuses: why}, openings (judge.openings), manage (how its commands are called there).
    facts = models.JSONField(default=dict)
    # The least memory that was in use with nobody there, by driver and GPU, over all boots.
    memory_best: Json[dict[str, int]] = models.JSONField(default=dict)

    # What engines have left on it (judge.leftbehind.Left, as JSON), as its watcher last saw it.
    left_behind: Json[list[dict[str, Any]]] = models.JSONField(default=list)

    class Meta:
        ordering = ["slug"]
        verbose_name_plural = "boxes"

    def __str__(self) -> str:
        return self.slug

    @property
    def current_claims(self) -> "list[Claim]":
        """Active ones; without another query where they were fetched with the box."""
        fetched: list[Claim] | None = getattr(self, "fetched_claims", None)
        return list(self.claims.active()) if fetched is None else fetched

    @property
    def queue(self) -> str:
        return f"box.{self.slug}"

    @property
    def cache_path(self) -> str:
        """Where its Hugging Face cache lies; "" where it has none, or nobody can tell."""
        try:
            return resolve(self.hf_cache, home=self.home) if self.hf_cache else ""
        except VolumeError:
            return ""

    @property
    def is_silent(self) -> bool:
        return self.seen_at is None or timezone.now() - self.seen_at > SILENT_AFTER

    @property
    def problems(self) -> list[dict[str, str]]:
        """What is missing on the box: {"what", "fix"} each, in the watcher's words."""
        return list(self.facts.get("problems", []))

    @property
    def gpus(self) -> list[dict[str, Any]] | None:
        """Its GPUs as last seen; None while nobody has looked."""
        found: list[dict[str, Any]] | None = self.facts.get("gpus")
        return found

    def indices(self, gpus: str) -> frozenset[int] | None:
        """Which of its GPUs "all", "none" or indices are; None for what names no places."""
        if gpus == "all":
            return frozenset(card["index"] for card in self.gpus or ())
        if gpus == "none":
            return frozenset()
        return frozenset(map(int, gpus.split(","))) if gpus.replace(",", "").isdigit() else None

    @property
    def is_unified(self) -> bool:
        """Whether its GPUs use the machine's own memory."""
        return any(gpu.get("kind") == "unified" for gpu in self.gpus or ())

    @property
    def health(self) -> str:
        if self.is_silent:
            return "silent"
        is_held = any(map(holds_memory, self.left_behind))
        return "attention" if self.problems or self.facts.get("faults") or is_held else "ok"

    @property
    def health_word(self) -> str:
        return {"silent": "away", "attention": "needs attention", "ok": "all is well"}[self.health]


class ObservationKind(models.TextChoices):
    IMAGES = "images"  # in Docker
    TAGS = "tags"  # what registries have under their names
    MODELS = "models"  # on the disks
    HOST = "host"  # resources of the machine
    OTHERS = "others"  # workloads that inferdash did not start


class BoxObservationManager[T: "BoxObservation"](models.Manager[T]):
    def get_queryset(self) -> models.QuerySet[T]:
        found = super().get_queryset()
        return found.filter(kind=self.model.KIND) if self.model.KIND else found

    def find(self, box: Box | int) -> T | None:
        return self.filter(box=box).first()

    def by_box(self) -> dict[int, T]:
        return {each.box_id: each for each in self.all()}

    def mark(self) -> str:
        """Another text whenever any has changed, or somebody wants a look."""
        shown = ("wanted_at", "looked_at", "changed_at", "trouble", "data")
        seen = hashlib.blake2b(digest_size=8)
        for row in self.order_by("pk").values_list(*shown):
            seen.update(str(row).encode())
        return seen.hexdigest()


class BoxObservation(JsonRow):
    """Apart from the box's row, which pages read with every server."""

    KIND: ObservationKind | None = None

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="observations")
    kind = models.CharField(max_length=10, choices=ObservationKind)
    wanted_at = models.DateTimeField(null=True)  # somebody asked for a look
    looked_at = models.DateTimeField(null=True)  # None: never to the end
    changed_at = models.DateTimeField(default=timezone.now)
    # Why the last look saw nothing; then the rest is of an earlier one.
    trouble = models.TextField(blank=True)
    # What was seen, in the words of its kind; written by the watcher alone.
    data: Json[dict[str, Any]] = models.JSONField(default=dict)

    objects = BoxObservationManager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["box", "kind"], name="one_observation_a_kind")
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.box_id}"

    def save(self, *args: Any, **values: Any) -> None:
        self.kind = self.KIND or self.kind
        super().save(*args, **values)

    @property
    def is_wanted(self) -> bool:
        return self.wanted_at is not None and (
            self.looked_at is None or self.looked_at < self.wanted_at
        )


class RebootQuerySet(models.QuerySet["Reboot"]):
    def unread(self) -> Self:
        """The newest of each box, unless somebody has read it."""
        newest = self.model._default_manager.filter(box=models.OuterRef("box")).order_by("-pk")
        return self.filter(pk=models.Subquery(newest.values("pk")[:1]), dismissed_at=None)


class Reboot(models.Model):
    """The first boot that a watcher sees of a box has no row: nothing was there before."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="reboots")
    boot_id = models.CharField(max_length=40)  # the kernel's
    booted_at = models.DateTimeField()
    last_seen_at = models.DateTimeField(null=True)  # the watcher's last sign of life before it
    noted_at = models.DateTimeField(default=timezone.now)
    # {"driver", "docker", "kernel"}: versions; a key is missing where nobody could tell.
    before: Json[dict[str, Any]] = models.JSONField(default=dict)
    after: Json[dict[str, Any]] = models.JSONField(default=dict)
    # The runs that it has ended, or that were still to be started, in the order of their starts.
    runs: Json[list[int]] = models.JSONField(default=list)
    dismissed_at = models.DateTimeField(null=True)
    dismissed_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")

    objects = RebootQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        constraints = [models.UniqueConstraint(fields=["box", "boot_id"], name="one_row_a_boot")]

    def __str__(self) -> str:
        return f"{self.box_id} at {self.booted_at}"

    def dismiss(self, by: User) -> bool:
        """Whether this call did."""
        mine = type(self).objects.filter(pk=self.pk, dismissed_at=None)
        return mine.update(dismissed_at=timezone.now(), dismissed_by=by) == 1
