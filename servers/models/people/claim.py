"""A claim: somebody needs GPUs of a box, or a server, until a time."""

from datetime import timedelta
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from servers.models.box import Box
from servers.models.json_values import Json
from servers.models.people.user import User
from servers.models.runs.server import Server

LONGEST = timedelta(days=14)


class ClaimQuerySet(models.QuerySet["Claim"]):
    def active(self) -> Self:
        """By the clock: a claim ends at its time whether anybody looks or not."""
        return self.filter(ended_at=None, until__gt=timezone.now()).select_related(
            "by", "server", "box"
        )


class Claim(models.Model):
    """Of GPUs (`gpus`) or of a server, never of both."""

    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="claims")
    server = models.ForeignKey(
        Server, null=True, on_delete=models.CASCADE, related_name="own_claims"
    )
    gpus: Json[list[int]] = models.JSONField(default=list)
    by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="claims")
    note = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField(db_index=True)
    ended_at = models.DateTimeField(null=True)  # by hand, or when its end was noticed

    objects = ClaimQuerySet.as_manager()

    class Meta:
        ordering = ["until", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=Q(server__isnull=True) | Q(gpus=[]), name="claim_of_one_kind"
            )
        ]

    def __str__(self) -> str:
        return f"{self.what} on {self.box.slug}"

    @property
    def what(self) -> str:
        """ "qwen3-8b", "GPU 3", "GPUs 0, 1"."""
        if self.server is not None:
            return self.server.slug
        return f"GPU{'' if len(self.gpus) == 1 else 's'} {', '.join(map(str, self.gpus))}"

    def covers(self, server: Server) -> bool:
        """Whether it is of this server, or of GPUs that the server's run has now."""
        if self.server_id is not None:
            return self.server_id == server.pk
        run = server.run
        if self.box_id != server.box_id or run is None or not run.is_active:
            return False
        return bool(set(self.gpus) & (server.box.indices(run.gpus) or set()))
