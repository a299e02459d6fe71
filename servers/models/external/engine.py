"""Engines that run on a box, or have run there, although inferdash did not start them."""

from collections.abc import Iterable

from django.db import models, transaction
from django.utils import timezone

from servers.judge.external.engines import DiscoveredEngine
from servers.models.box import Box


class ExternalEngineQuerySet(models.QuerySet["ExternalEngine"]):
    def renew(self, box: Box, found: Iterable[DiscoveredEngine]) -> bool:
        """Keep exactly these of the box; return whether anything is different now."""
        wanted = {each.container: each for each in found}
        new = {container: each.to_json() for container, each in wanted.items()}
        mine = self.filter(box=box)
        old = dict(mine.values_list("container_id", "found"))
        if new == old:
            return False
        with transaction.atomic():
            mine.exclude(container_id__in=list(new)).delete()
            for container, said in new.items():
                if old.get(container) != said:
                    has_ended = wanted[container].has_ended
                    self.update_or_create(
                        box=box,
                        container_id=container,
                        defaults={"found": said, "has_ended": has_ended},
                    )
        return True


class ExternalEngine(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="external_engines")
    container_id = models.CharField(max_length=64)
    seen_at = models.DateTimeField(default=timezone.now)  # first
    found = models.JSONField(default=dict)  # a judge.external.engines.Found
    has_ended = models.BooleanField(default=False)  # a container that is still there

    objects = ExternalEngineQuerySet.as_manager()

    class Meta:
        ordering = ["seen_at", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["box", "container_id"], name="one_sighting_a_container")
        ]

    def __str__(self) -> str:
        return f"{self.container_id[:12]} on {self.box_id}"

    @property
    def what(self) -> DiscoveredEngine:
        return DiscoveredEngine.from_json(self.found)
