"""What a box's images said of their engines: version and flags, asked once an image."""

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from django.db import models
from django.utils import timezone

from servers.engines import ENGINES
from servers.engines.asked import completed
from servers.engines.flaglist import FlagList
from servers.engines.launch import Launch
from servers.models.box import Box

# What made an image fail to answer may be gone by then: a driver, a full disk.
ASK_AGAIN_AFTER = timedelta(days=1)


class ImageFactsQuerySet(models.QuerySet["ImageFacts"]):
    def of(self, launch: Launch, box: Box) -> "ImageFacts | None":
        """Of exactly the image that the launch names, on this box; without its flags at first."""
        return self.named(launch.engine, launch.image, box)

    def named(self, engine: str, reference: str, box: Box) -> "ImageFacts | None":
        found = self.filter(box=box, reference=reference, engine=engine)
        return found.defer("flags").first()

    def same_image(self, box: Box, engine: str, image_id: str) -> Self:
        """What the image said under whichever name."""
        return self.filter(box=box, engine=engine, image_id=image_id)

    def flaglist_of(self, box: Box, engine: str, image_id: str) -> FlagList | None:
        """None while the image was not asked, or could not be."""
        found = self.same_image(box, engine, image_id).defer("flags").order_by("error").first()
        return found.flaglist if found else None


class ImageFacts(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="image_facts")
    reference = models.CharField(max_length=500)  # as profiles write it
    engine = models.CharField(max_length=20)
    image_id = models.CharField(max_length=80)
    version = models.CharField(max_length=60, blank=True)  # "": it could not be asked
    # FlagList.to_json(); None when the image could not be asked.
    flags: "models.JSONField[dict[str, Any] | None, dict[str, Any] | None]" = models.JSONField(
        null=True
    )
    count = models.PositiveIntegerField(default=0)  # of the flags
    error = models.TextField(blank=True)  # why there are none, one sentence for a person
    asked_at = models.DateTimeField()

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
        return None if self.error else _flaglist(self.pk, self.asked_at)

    def is_due(self, image_id: str, now: datetime | None = None) -> bool:
        """Whether the image is another one than was asked, or may answer by now."""
        if image_id != self.image_id:
            return True
        return bool(self.error) and (now or timezone.now()) - self.asked_at >= ASK_AGAIN_AFTER


@lru_cache(maxsize=64)
def _flaglist(pk: int, asked_at: datetime) -> FlagList | None:
    """Hundreds of flags, wanted on every keystroke of a form: read once an answer."""
    flags = ImageFacts.objects.values_list("flags", flat=True).get(pk=pk)
    return None if flags is None else completed(FlagList.from_json(flags), ENGINES[flags["engine"]])
