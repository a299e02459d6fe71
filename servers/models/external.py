"""Engines that run on a box, or have run there, although inferdash did not start them."""

from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.box import Box, BoxObservation, BoxObservationManager, ObservationKind
from servers.models.json_values import Json, JsonValue
from servers.models.profiles import ProfileVersion


class ExternalEngine(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="external_engines")
    container_id = models.CharField(max_length=64)
    seen_at = models.DateTimeField(default=timezone.now)  # first
    found = models.JSONField(default=dict)  # a judge.external.engines.DiscoveredEngine's
    has_ended = models.BooleanField(default=False)  # a container that is still there

    class Meta:
        ordering = ["seen_at", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["box", "container_id"], name="one_sighting_a_container")
        ]

    def __str__(self) -> str:
        return f"{self.container_id[:12]} on {self.box_id}"


class ProfileImport(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="imports")
    # A container's 64 digits, or "pid-4711-99" with the moment of the process's start.
    container = models.CharField(max_length=64)
    # Of a process: Found.identity, by which its next life is known; {} of a container.
    identity: Json[dict[str, str]] = models.JSONField(default=dict)
    name = models.CharField(max_length=200)
    version = models.ForeignKey(ProfileVersion, on_delete=models.CASCADE, related_name="imports")
    made_at = models.DateTimeField(default=timezone.now)
    # launch.commandline.comparison.Row as lists: what, theirs, ours, verdict.
    rows: Json[list[list[str]]] = models.JSONField(default=list)
    # Kind and sentence of what had to be assumed or left out.
    remarks: Json[list[Any]] = models.JSONField(default=list)

    class Meta:
        verbose_name = "imported profile"
        constraints = [
            models.UniqueConstraint(fields=["box", "container"], name="one_likeness_a_container")
        ]

    def __str__(self) -> str:
        return f"{self.version_id} as {self.name}"

    @property
    def is_of_process(self) -> bool:
        return self.container.startswith("pid-")


class OtherWorkloads(BoxObservation):
    KIND = ObservationKind.OTHERS

    # Of others, that run and are no engines: {"container", "name", "image", "ports", "started_at",
    # "wants_gpus", "origin"}; of who works for a cluster of Ray's also "ray", its head's address, and
    # "pids" of one in no container.
    containers = JsonValue[list[dict[str, Any]]]("data", [])
    images = JsonValue[dict[str, int]]("data", {})  # {"count", "size"}; {}: nobody has counted
    # {"what", "why", "command"}: see judge.external.engines.
    unseen = JsonValue[list[dict[str, str]]]("data", [])

    objects = BoxObservationManager()  # type: ignore[misc]

    class Meta:
        proxy = True
