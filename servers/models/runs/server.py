"""A profile placed on a box, with what people want of it."""

from datetime import datetime
from typing import TYPE_CHECKING, Self, cast

from django.apps import apps
from django.db import models
from django.db.models.functions import Coalesce
from django.utils import timezone

from servers.launch.engines.launch import Launch, fill_parameters
from servers.models.box import Box
from servers.models.json_values import Json
from servers.models.people.user import User
from servers.models.profiles import Profile

if TYPE_CHECKING:
    from servers.models.runs.run import ExternalServer, ManagedServer, Run


class ServerQuerySet[S: "Server"](models.QuerySet[S]):
    def filter_managed(self) -> "ServerQuerySet[ManagedServer]":
        return cast("ServerQuerySet[ManagedServer]", self.filter(watches={}))

    def filter_external(self) -> "ServerQuerySet[ExternalServer]":
        return cast("ServerQuerySet[ExternalServer]", self.exclude(watches={}))

    def present(self) -> Self:
        return self.filter(removed_at=None)

    def for_dashboard(self) -> Self:
        """Those on the dashboard, with everything that a card shows, in one query."""
        return self.present().with_details().order_by("box__slug", "slug")

    def for_person(self, person: User) -> Self:
        """Each with whether it is one of this person's favourites."""
        fans = self.model.fans.through._default_manager.filter(
            server=models.OuterRef("pk"), user=person
        )
        return self.annotate(is_favourite=models.Exists(fans))

    def failures(self) -> "list[tuple[str, Run]]":
        """Slug and run of each server whose latest run failed, the newest first."""
        failed = self.present().filter(run__state="failed")
        if not failed.exists():  # a sixth of the time, for what every page asks
            return []
        found = failed.order_by("-run__ended_at").select_related("run__log")
        return [(server.slug, server.run) for server in found if server.run]

    def with_details(self) -> Self:
        found = self.select_related(
            "profile__current",
            "box",
            "held_back_by",
            "run__started_by",
            "run__stopped_by",
            "run__version",
            "run__plan__repeats__start",
            "run__start",
            "run__log",
            "run__health",
        )
        return found.prefetch_related(*self._around_runs()).annotate(
            last_time_to_ready=self._last_time_to_ready()
        )

    def _around_runs(self) -> list["models.Prefetch[str]"]:
        """Of each server's run, who talks to it (`lately`) and which wait for it (`waiters`); claims;
        check-ups of the server that go on (`checkups`), and trials (`begun_trials`)."""
        uses = apps.get_model("servers", "ActiveUser")._default_manager.lately()
        waiting = apps.get_model("servers", "Run")._default_manager.filter(
            state__in=["queued", "pulling"]
        )
        claims = apps.get_model("servers", "Claim")._default_manager.active()
        checkups = apps.get_model("servers", "Benchmark")._default_manager.filter_open()
        trials = apps.get_model("servers", "UpgradeTrial")._default_manager.filter_begun()
        return [
            models.Prefetch("box__claims", claims, to_attr="fetched_claims"),
            models.Prefetch("benchmarks", checkups.select_related("job", "by"), to_attr="checkups"),
            models.Prefetch("trials", trials.select_related("by"), to_attr="begun_trials"),
            models.Prefetch("run__active_users", uses.select_related("by"), to_attr="lately"),
            models.Prefetch(
                "run__waited_for_by",
                waiting.select_related("server", "started_by").order_by("created_at"),
                to_attr="waiters",
            ),
        ]

    def _last_time_to_ready(self) -> models.Subquery:
        runs = apps.get_model("servers", "Run")._default_manager
        ready = runs.filter(server=models.OuterRef("pk"), ready_at__isnull=False, saw_start=True)
        began = Coalesce("turn_at", "created_at")
        took = ready.annotate(took=models.F("ready_at") - began)
        return models.Subquery(took.order_by("-created_at").values("took")[:1])


class Server(models.Model):
    slug = models.SlugField(max_length=80, unique=True)
    profile = models.ForeignKey(Profile, on_delete=models.PROTECT, related_name="servers")
    box = models.ForeignKey(Box, on_delete=models.PROTECT, related_name="servers")
    run = models.ForeignKey(  # the latest; its state is the server's state
        "Run", null=True, on_delete=models.SET_NULL, related_name="+"
    )
    # Parameters of the profile that this server has values of its own for.
    values: Json[dict[str, str]] = models.JSONField(default=dict)
    # Whose containers it follows, which somebody else makes: {"project", "service", "number"} of
    # compose, or {"name"}; of processes {"unit", "port"}, or {"command", "user"}. {}: those that
    # inferdash makes.
    watches: Json[dict[str, str]] = models.JSONField(default=dict)
    # What it took over from and how to have that back: {"name", "container", "image", "command",
    # "revived_by", "keeps_away", "at"}. {}: nothing.
    took_over: Json[dict[str, str]] = models.JSONField(default=dict)
    # Who has stopped it although requests may start it: they do not, until somebody lets them.
    held_back_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    # Whose dashboard shows it first.
    fans = models.ManyToManyField(User, related_name="favourite_servers", blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True)

    objects = ServerQuerySet.as_manager()

    def __str__(self) -> str:
        return self.slug

    @property
    def is_watched(self) -> bool:
        """Whether it is only looked at: never started, stopped, restarted or removed."""
        return bool(self.watches)

    @property
    def can_start(self) -> bool:
        """Whether it is inferdash's own and does not run."""
        return not (self.is_watched or (self.run is not None and self.run.is_active))

    @property
    def runs_again(self) -> bool:
        """Whether the container that it took over from was started again."""
        old = self.took_over.get("container")
        if not old:
            return False
        seen = self.box.external_engines.filter(container_id=old, has_ended=False).first()
        # For a moment the box's last look still knows the life that was ended for this server.
        since = datetime.fromisoformat(self.took_over["at"]).timestamp()
        return seen is not None and (seen.found.get("started_at") or 0.0) > since

    @property
    def revivers(self) -> list[tuple[str, str]]:
        """What would bring that back by itself, each with the command that keeps it from it."""
        said, commands = (self.took_over.get(each, "") for each in ("revived_by", "keeps_away"))
        lines, under = said.split("\n"), commands.split("\n")
        # Rows of an earlier version have all in one line.
        same = len(lines) == len(under)
        return (
            (list(zip(lines, under, strict=True)) if same else [(said, commands)]) if said else []
        )

    @property
    def launch(self) -> Launch:
        """What runs now, or would run at the next start."""
        run = self.run
        if run is not None and run.is_active:
            return run.launch
        return fill_parameters(self.profile.launch, self.values)
