"""The image inventory of a box, and news of its tags."""

from typing import Any

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.box_observation import BoxObservation, BoxObservationManager, ObservationKind
from servers.models.json_values import JsonValue
from servers.models.people.user import User

# The repository of names that inferdash gives to images which would else have none.
KEPT = "inferdash/kept"


class ImageInventory(BoxObservation):
    """`changed_at` is of what lies there."""

    KIND = ObservationKind.IMAGES

    layers = JsonValue[int | None]("data")  # bytes of all images, each layer once

    objects = BoxObservationManager()  # type: ignore[misc]

    class Meta:
        proxy = True


class TagChecks(BoxObservation):
    """When registries were last asked what tags mean, and when somebody wants that."""

    KIND = ObservationKind.TAGS

    objects = BoxObservationManager()  # type: ignore[misc]

    class Meta:
        proxy = True


class StoredImageQuerySet(models.QuerySet["StoredImage"]):
    def names(self, box: Box) -> dict[str, str]:
        """By id, what the box's images are called on pages."""
        known = self.filter(box=box).only("image_id", "tags", "digests")
        return {each.image_id: each.name for each in known}


class StoredImage(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="images")
    image_id = models.CharField(max_length=80)  # sha256:…
    tags: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    digests: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    size = models.BigIntegerField()  # bytes, with the layers that others have too
    shared = models.BigIntegerField(null=True)  # of that; None: nobody has added it up
    made_at = models.DateTimeField(null=True)  # None: its builder does not tell
    architecture = models.CharField(max_length=20, blank=True)  # amd64, arm64
    cuda = models.CharField(max_length=30, blank=True)  # as its environment says
    # A key of ENGINES, by the profiles and runs that know it, else by its names; "": none.
    engine = models.CharField(max_length=20, blank=True)
    version = models.CharField(max_length=60, blank=True)  # as a label of it says
    built_for = models.CharField(max_length=63, blank=True)  # the profile's slug, where we built it
    # Containers that were made from it: {"id", "name", "state", "is_ours"} each.
    users: "models.JSONField[list[dict[str, Any]], list[dict[str, Any]]]" = models.JSONField(
        default=list
    )
    seen_at = models.DateTimeField(default=timezone.now)  # first
    # Somebody wants its version and flags, although no profile names it.
    is_to_be_asked = models.BooleanField(default=False)

    objects = StoredImageQuerySet.as_manager()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["box", "image_id"], name="one_stored_image_an_id")
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def short_id(self) -> str:
        return self.image_id.removeprefix("sha256:")[:12]

    @property
    def given_tags(self) -> list[str]:
        """Without the names that inferdash gave it only to keep it."""
        return [each for each in self.tags if not each.startswith(f"{KEPT}:")]

    @property
    def name(self) -> str:
        if self.given_tags:
            return self.given_tags[0]
        if self.digests:
            return self.digests[0].partition("@")[0]
        return self.short_id


class TagNews(models.Model):
    """A tag that profiles name: what its registry has there now, and what it meant before."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="news")
    reference = models.CharField(max_length=500)  # as Docker lists it
    checked_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)  # why the registry could not be asked, a sentence
    # Of the newer build, where there is one: its digest, since when it is known, and its id on
    # the box once it is there beside the one that the tag means.
    digest = models.CharField(max_length=100, blank=True)
    noticed_at = models.DateTimeField(null=True)
    newer_id = models.CharField(max_length=80, blank=True)
    # What the tag meant until somebody moved it.
    before_id = models.CharField(max_length=80, blank=True)
    moved_at = models.DateTimeField(null=True)
    moved_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["reference"]
        verbose_name_plural = "tag news"
        constraints = [models.UniqueConstraint(fields=["box", "reference"], name="one_news_a_tag")]

    def __str__(self) -> str:
        return f"{self.reference} on {self.box_id}"

    @property
    def has_newer(self) -> bool:
        return self.noticed_at is not None
