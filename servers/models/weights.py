"""The model inventory of a box, and checkpoints."""

from typing import Any

from django.db import models

from servers.models.box import Box, BoxObservation, BoxObservationManager, ObservationKind
from servers.models.json_values import Json, JsonValue

LONGEST_PATH = 1000


class ModelInventory(BoxObservation):
    KIND = ObservationKind.MODELS

    looking_since = JsonValue[str]("data", "")  # "": nobody looks now
    # {"path", "is_usual", "found", "hidden": paths, "is_cut", "absent", "refused": why} each.
    roots = JsonValue[list[dict[str, Any]]]("data", [])

    objects = BoxObservationManager()  # type: ignore[misc]

    class Meta:
        proxy = True


class StoredCheckpoint(models.Model):
    """One checkpoint on a disk; see host.weights.stored.Checkpoint for what each figure means."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="checkpoints")
    path = models.CharField(max_length=LONGEST_PATH)
    name = models.CharField(max_length=300)
    is_hub = models.BooleanField(default=False)
    revision = models.CharField(max_length=64, blank=True)
    refs: Json[list[str]] = models.JSONField(default=list)
    format = models.CharField(max_length=12, blank=True)
    weights = models.BigIntegerField()
    size = models.BigIntegerField()
    files = models.PositiveIntegerField()
    state = models.CharField(max_length=16)
    because = models.CharField(max_length=500, blank=True)
    missing = models.BigIntegerField(null=True)
    fingerprint = models.CharField(max_length=32, blank=True)
    # Its config.json without long lists; None where there is none.
    config: Json[dict[str, Any] | None] = models.JSONField(null=True)
    is_adapter = models.BooleanField(default=False)
    changed_at = models.DateTimeField()  # the newest file of weights
    # READMEs and scripts beside it, by their names.
    texts: Json[dict[str, str]] = models.JSONField(default=dict)
    # Why files that a page would show, or that a start needs, are not read; by their names.
    unread: Json[dict[str, str]] = models.JSONField(default=dict)
    licence = models.CharField(max_length=100, blank=True)

    class Meta:
        ordering = ["name", "path"]
        constraints = [
            models.UniqueConstraint(fields=["box", "path"], name="one_stored_checkpoint_a_path")
        ]

    def __str__(self) -> str:
        return self.name


class CheckpointFacts(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="checkpoint_facts")
    # A path of the box, or a Hugging Face id with @revision in the box's cache.
    source = models.CharField(max_length=700)
    # Its config.json without long lists; None where there is none.
    config: Json[dict[str, Any] | None] = models.JSONField(null=True)
    weights = models.BigIntegerField(null=True)  # bytes; None: no file of weights
    missing = models.BigIntegerField(default=0)  # bytes of them that are still to be downloaded
    # What the Hub says of one that is not on the box (host.hub.Access); "": it is there.
    remote = models.CharField(max_length=10, blank=True)
    changed_at = models.DateTimeField()  # when this was first seen so

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["box", "source"], name="one_checkpoint_a_box")
        ]

    def __str__(self) -> str:
        return f"{self.source} on {self.box_id}"
