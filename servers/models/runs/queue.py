"""A start that waits until the GPUs that it needs are free."""

from datetime import datetime

from django.db import models


class QueueFields(models.Model):
    """Part of Run, while it is queued."""

    # Somebody told it to wait until nobody is on its GPUs, and until when; None: for ever.
    waits = models.BooleanField(default=False)
    waits_until = models.DateTimeField(null=True)
    # When it no longer had to: from then on it may be short of memory for a while, not for ever.
    turn_at = models.DateTimeField(null=True)
    # Runs that it waits for, as last seen.
    waits_for: "models.ManyToManyField[models.Model, models.Model]" = models.ManyToManyField(
        "self", symmetrical=False, related_name="waited_for_by"
    )

    class Meta:
        abstract = True

    # Of the run itself, which this is a part of.
    state: "models.CharField[str, str]"
    created_at: "models.DateTimeField[datetime, datetime]"

    @property
    def began_at(self) -> datetime:
        """The click; of one that has waited for others, when its turn came."""
        return self.turn_at or self.created_at

    @property
    def is_waiting(self) -> bool:
        """Whether it was told to wait, and still does."""
        return self.waits and self.state == "queued"
