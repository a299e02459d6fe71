"""Facts of checkpoints on a box, as far as launches depend on them."""

from typing import Any

from django.db import models

from servers.models.box import Box


class CheckpointFacts(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="checkpoint_facts")
    # A path of the box, or a Hugging Face id with @revision in the box's cache.
    source = models.CharField(max_length=700)
    # Its config.json without long lists; None where there is none.
    config: "models.JSONField[dict[str, Any] | None, dict[str, Any] | None]" = models.JSONField(
        null=True
    )
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
