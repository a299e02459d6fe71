"""A profile placed on a box, with what people want of it."""

from typing import Self

from django.db import models
from django.utils import timezone

from servers.engines import parameters
from servers.engines.launch import Launch
from servers.models.box import Box
from servers.models.profile import Profile


class ServerQuerySet(models.QuerySet["Server"]):
    def shown(self) -> Self:
        return self.filter(removed_at=None)

    def for_dashboard(self) -> Self:
        """Those on the dashboard, with everything that a card shows, in one query."""
        return self.shown().with_details().order_by("box__slug", "slug")

    def failures(self) -> list[tuple[str, str]]:
        """Slug and sentence of each server whose latest run failed."""
        failed = self.shown().filter(run__state="failed").order_by("-run__ended_at")
        return [
            (server.slug, server.run.why) for server in failed.select_related("run") if server.run
        ]

    def with_details(self) -> Self:
        return self.select_related(
            "profile__current",
            "box",
            "run__started_by",
            "run__stopped_by",
            "run__version",
            "run__like",
        ).annotate(last_time_to_ready=self._last_time_to_ready())

    def _last_time_to_ready(self) -> models.Subquery:
        runs = self.model._meta.get_field("runs").related_model._default_manager
        ready = runs.filter(server=models.OuterRef("pk"), ready_at__isnull=False)
        took = ready.annotate(took=models.F("ready_at") - models.F("created_at"))
        return models.Subquery(took.order_by("-created_at").values("took")[:1])


class Server(models.Model):
    slug = models.SlugField(max_length=80, unique=True)
    profile = models.ForeignKey(Profile, on_delete=models.PROTECT, related_name="servers")
    box = models.ForeignKey(Box, on_delete=models.PROTECT, related_name="servers")
    run = models.ForeignKey(  # the latest; its state is the server's state
        "Run", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # Parameters of the profile that this server has values of its own for.
    values: "models.JSONField[dict[str, str], dict[str, str]]" = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True)

    objects = ServerQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug

    @property
    def launch(self) -> Launch:
        """What runs now, or would run at the next start."""
        run = self.run
        if run is not None and run.is_active:
            return run.launch
        return parameters.fill(self.profile.launch, self.values)
