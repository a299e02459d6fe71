"""Images of a box: facts, inventory and news of tags; and registry credentials."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from django.conf import settings
from django.db import models
from django.utils import timezone

from servers.launch.engines import ENGINES
from servers.launch.engines.flaghelp import complete_image_flags
from servers.launch.engines.flaglist import FlagList
from servers.models.box import Box, BoxObservation, BoxObservationManager, ObservationKind
from servers.models.json_values import Json, JsonValue
from servers.models.people.key import reveal_copy, seal_text, unseal_text
from servers.models.people.user import User

# What made an image fail to answer may be gone by then: a driver, a full disk.
ASK_AGAIN_AFTER = timedelta(days=1)


class InspectionState(models.TextChoices):
    """Where the asking of an image stands; what it has said so far is another matter."""

    DONE = "done"  # nothing to ask
    ABSENT = "absent"  # the box does not have the image
    WAITING = "waiting"  # to be asked as soon as it may be
    ASKING = "asking"
    TROUBLE = "trouble"  # Docker could not do it, which is not the image's fault


class ImageFactsQuerySet(models.QuerySet["ImageFacts"]):
    def find_named(self, engine: str, reference: str, box: Box) -> "ImageFacts | None":
        """Of exactly the image that is named so, on this box; without its flags at first."""
        found = self.filter(box=box, reference=reference, engine=engine)
        return found.defer("flags").first()

    def same_image(self, box: Box, engine: str, image_id: str) -> Self:
        """What the image said under whichever name."""
        return self.filter(box=box, engine=engine, image_id=image_id).exclude(asked_at=None)

    def flaglist_of(self, box: Box, engine: str, image_id: str) -> FlagList | None:
        """None while the image was not asked, or could not be."""
        found = self.same_image(box, engine, image_id).defer("flags").order_by("error").first()
        return found.flaglist if found else None

    def map_by_image(self, box: Box) -> "dict[tuple[str, str], ImageFacts]":
        """By engine and reference, without their flags at first."""
        return {(each.engine, each.reference): each for each in self.filter(box=box).defer("flags")}

    def note(
        self, box: Box, engine: str, reference: str, asking: InspectionState, **values: Any
    ) -> bool:
        """Write down where the asking stands; whether that says anything new."""
        wanted = _build_values(asking, values)
        facts, is_new = self.defer("flags").get_or_create(
            box=box, reference=reference, engine=engine, defaults=wanted
        )
        if is_new or not facts.differs(asking, values):
            return is_new
        now = timezone.now()
        wanted["changed_at"] = now
        if facts.asking != asking:
            wanted["since"] = now
        return bool(self.filter(pk=facts.pk).update(**wanted))

    def forget_others(
        self, known: "dict[tuple[str, str], ImageFacts]", placed: Collection[tuple[str, str]]
    ) -> None:
        """Engines and images that no profile of a box names any more are not to be asked."""
        others = [
            each.pk
            for key, each in known.items()
            if key not in placed and each.asking != InspectionState.DONE
        ]
        if others:
            self.filter(pk__in=others, asked_at=None).delete()
            self.filter(pk__in=others).update(**_build_values(InspectionState.DONE, {}))

    def mark(self) -> str:
        """Another text whenever something about any image has changed."""
        found = self.aggregate(models.Max("changed_at"), models.Count("pk"))
        return f"{found['changed_at__max']} {found['pk__count']}"


class ImageFacts(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="image_facts")
    reference = models.CharField(max_length=500)  # as profiles write it
    engine = models.CharField(max_length=20)
    image_id = models.CharField(max_length=80, blank=True)  # that was asked
    # As Docker's inspect says it; None: nobody has looked.
    entrypoint: Json[list[str] | None] = models.JSONField(null=True)
    version = models.CharField(max_length=60, blank=True)  # "": it could not be asked
    # FlagList.to_json(); None when the image could not be asked.
    flags: Json[dict[str, Any] | None] = models.JSONField(null=True)
    count = models.PositiveIntegerField(default=0)  # of the flags
    error = models.TextField(blank=True)  # why there are none, one sentence for a person
    asked_at = models.DateTimeField(null=True)  # None: never yet
    asking = models.CharField(
        max_length=10, choices=InspectionState.choices, default=InspectionState.DONE
    )
    why = models.TextField(blank=True)  # it waits, or is in trouble; one sentence for a person
    since = models.DateTimeField(default=timezone.now)  # it stands there
    again_at = models.DateTimeField(null=True)  # when it is tried again, where that is known
    changed_at = models.DateTimeField(default=timezone.now)

    objects = ImageFactsQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["box", "reference", "engine"], name="one_answer_an_image_and_engine"
            )
        ]

    def __str__(self) -> str:
        return f"{self.reference} on {self.box_id}"

    @property
    def title(self) -> str:
        """The engine with its version: vLLM 0.32.0."""
        return f"{ENGINES[self.engine].title} {self.version}".strip()

    @property
    def flaglist(self) -> FlagList | None:
        if self.error or self.asked_at is None:
            return None
        return _flaglist(self.pk, self.asked_at)

    def differs(self, asking: InspectionState, values: Mapping[str, Any]) -> bool:
        """Whether it stands elsewhere than that, or something else is known of the image."""
        wanted = _build_values(asking, values)
        return any(getattr(self, name) != value for name, value in wanted.items())

    def is_due(self, image_id: str, now: datetime | None = None) -> bool:
        """Whether the image is another one than was asked, or may answer by now."""
        if self.asked_at is None or image_id != self.image_id:
            return True
        return bool(self.error) and (now or timezone.now()) - self.asked_at >= ASK_AGAIN_AFTER

    @property
    def tried_again_at(self) -> datetime | None:
        """Of one that could not be asked."""
        return self.asked_at + ASK_AGAIN_AFTER if self.error and self.asked_at else None

    def entrypoint_or(self, usual: tuple[str, ...]) -> tuple[str, ...]:
        return usual if self.entrypoint is None else tuple(self.entrypoint)


def _build_values(asking: InspectionState, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"asking": asking, "why": "", "again_at": None, **values}


@lru_cache(maxsize=64)
def _flaglist(pk: int, asked_at: datetime) -> FlagList | None:
    """Hundreds of flags, wanted on every keystroke of a form: read once an answer."""
    flags = ImageFacts.objects.values_list("flags", flat=True).get(pk=pk)
    return (
        None
        if flags is None
        else complete_image_flags(FlagList.from_json(flags), ENGINES[flags["engine"]])
    )


class RegistryCredential(models.Model):
    registry = models.CharField(max_length=200, unique=True)  # as in references: ghcr.io
    username = models.CharField(max_length=200)
    sealed = models.BinaryField()
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    # What came of trying it; None: nobody has since it was entered.
    tested_at = models.DateTimeField(null=True)
    test_wanted_at = models.DateTimeField(null=True)
    tested_on = models.ForeignKey(Box, null=True, on_delete=models.SET_NULL, related_name="+")
    error = models.TextField(blank=True)  # of the newest try; "": it lets us in

    class Meta:
        ordering = ["registry"]

    def __str__(self) -> str:
        return self.registry

    def keep(self, password: str) -> None:
        """Set the password; what was tried before says nothing of it. The caller saves."""
        self.sealed = seal_text(password)
        self.created_at = timezone.now()
        self.tested_at = self.test_wanted_at = None
        self.error = ""

    @property
    def password(self) -> str:
        """Raises SecretError. Never shown: only who asks the registry has a use for it."""
        if settings.WIRE == "box":
            return reveal_copy(self, f"The credential of {self.registry}")
        return unseal_text(bytes(self.sealed), f"The credential of {self.registry}")

    @property
    def is_wanted(self) -> bool:
        return self.test_wanted_at is not None and (
            self.tested_at is None or self.tested_at < self.test_wanted_at
        )


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
    tags: Json[list[str]] = models.JSONField(default=list)
    digests: Json[list[str]] = models.JSONField(default=list)
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
    users: Json[list[dict[str, Any]]] = models.JSONField(default=list)
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
