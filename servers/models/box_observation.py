"""Observations of a box: what its watcher last saw there, of one kind each."""

import hashlib
from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.json_values import JsonRow


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
    data: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField(default=dict)

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
