"""A profile placed on a box, with what people want of it."""

from typing import Self

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.profile import Profile


class ServerQuerySet(models.QuerySet["Server"]):
    def shown(self) -> Self:
        return self.filter(removed_at=None)

    def for_dashboard(self) -> Self:
        """With everything that a card shows, in one query."""
        return (
            self.shown()
            .select_related("profile", "box", "run__started_by", "run__version")
            .order_by("box__slug", "slug")
        )


class Server(models.Model):
    slug = models.SlugField(max_length=80, unique=True)
    profile = models.ForeignKey(Profile, on_delete=models.PROTECT, related_name="servers")
    box = models.ForeignKey(Box, on_delete=models.PROTECT, related_name="servers")
    run = models.ForeignKey(  # the latest; its state is the server's state
        "Run", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True)

    objects = ServerQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["profile", "box"], name="one_server_a_profile_and_box")
        ]

    def __str__(self) -> str:
        return self.slug
