"""Launch profiles, presets and environment groups. A version never changes: a save makes the next one."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Self

from django.db import models, transaction
from django.utils import timezone

from servers.launch.engines.change import LaunchChange
from servers.launch.engines.launch import Launch
from servers.models.box import Box
from servers.models.json_values import Json
from servers.models.people.user import User


class Stale(Exception):
    """Somebody else has saved since."""


class Versioned(models.Model):
    # What people write about it; it may change without a new version.
    ABOUT: ClassVar[tuple[str, ...]]

    saves = models.PositiveIntegerField(default=0)

    class Meta:
        abstract = True

    @property
    def about(self) -> dict[str, Any]:
        """What it says of itself, apart from its versions."""
        return {name: getattr(self, name) for name in self.ABOUT}

    def claim(self, *, saves: int) -> None:
        """Begin a save on top of what somebody has seen, inside the save's transaction.

        Raises Stale when somebody else has saved since.
        """
        mine = type(self)._default_manager.filter(pk=self.pk, saves=saves)
        if not mine.update(saves=saves + 1):
            raise Stale
        self.saves = saves + 1

    def save_about(self, about: dict[str, Any], *, saves: int) -> dict[str, Any]:
        """As claim(), with what it says of itself from now on; return what it said before."""
        self.claim(saves=saves)
        before = self.about
        for name, value in about.items():
            setattr(self, name, value)
        self.save(update_fields=self.ABOUT)
        return before


class ProfileQuerySet(models.QuerySet["Profile"]):
    def active(self) -> Self:
        return self.filter(archived_at=None)

    def seen_by(self, person: User) -> Self:
        if person.may_administer:
            return self.active()
        return self.active().filter(models.Q(is_private=False) | models.Q(owner=person))

    def with_health(self) -> Self:
        """With the latest start of each, which decides its health."""
        runs = self.model._meta.apps.get_model("servers", "Run").objects
        latest = runs.filter(server__profile=models.OuterRef("pk")).order_by("-pk")
        return self.annotate(
            last_state=models.Subquery(latest.values("state")[:1]),
            last_ready=models.Subquery(latest.values("ready_at")[:1]),
        )

    def for_list(self, person: User, wanted: "ProfileFilter | None" = None) -> Self:
        """What this person sees and wants, with what a row shows; favourites come first."""
        wanted = wanted or ProfileFilter()
        fans = self.model.fans.through._default_manager.filter(
            profile=models.OuterRef("pk"), user=person
        )
        found = (
            self.seen_by(person)
            .select_related("current", "owner")
            .prefetch_related("servers__run", "servers__box")
            .with_health()
            .annotate(is_favourite=models.Exists(fans))
            .order_by("-is_favourite", "name")
        )
        for word in wanted.text.split():
            found = found.filter(_has(word))
        if wanted.engine:
            found = found.filter(current__spec__engine=wanted.engine)
        if wanted.health:
            found = found.filter(_HEALTH[ProfileHealth(wanted.health)])
        return found


def _has(word: str) -> models.Q:
    parts = ("checkpoint", "image", "engine", "hardware", "served_name")
    found = models.Q(name__icontains=word) | models.Q(notes__icontains=word)
    found |= models.Q(tags__icontains=word)
    for part in parts:
        found |= models.Q(**{f"current__spec__{part}__icontains": word})
    return found


class ProfileHealth(models.TextChoices):
    """What the latest start says of a profile."""

    WORKED = "worked", "last start worked"
    FAILING = "failing", "failing"
    NEVER = "never", "never started"
    OPEN = "open", "starting"


_HEALTH = {
    ProfileHealth.WORKED: models.Q(last_ready__isnull=False),
    ProfileHealth.FAILING: models.Q(last_ready=None, last_state="failed"),
    ProfileHealth.NEVER: models.Q(last_state=None),
    ProfileHealth.OPEN: models.Q(last_ready=None, last_state__isnull=False)
    & ~models.Q(last_state="failed"),
}


@dataclass(frozen=True, kw_only=True)
class ProfileFilter:
    """What somebody looks for in the list; empty means all."""

    text: str = ""
    engine: str = ""
    health: str = ""


class Profile(Versioned):
    ABOUT: ClassVar = ("name", "notes", "source", "tags", "is_private")

    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=100)
    notes = models.TextField(blank=True)
    source = models.URLField(max_length=500, blank=True)  # where it was published
    tags = models.CharField(max_length=200, blank=True)  # words, a space between
    is_private = models.BooleanField(default=False)  # for its owner's and admins' eyes
    fans = models.ManyToManyField(User, related_name="favourites", blank=True)
    owner = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="profiles")
    created_at = models.DateTimeField(default=timezone.now)
    archived_at = models.DateTimeField(null=True, blank=True)
    current = models.ForeignKey(
        "ProfileVersion", null=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = ProfileQuerySet.as_manager()

    # Of with_health() alone.
    last_state: str | None
    last_ready: datetime | None

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def is_seen_by(self, person: User) -> bool:
        """As seen_by() of all profiles."""
        is_open = not self.is_private or person.may_administer or self.owner_id == person.pk
        return is_open and self.archived_at is None

    @property
    def health(self) -> ProfileHealth:
        """Of a profile that was read with_health()."""
        if self.last_ready is not None:
            return ProfileHealth.WORKED
        if self.last_state is None:
            return ProfileHealth.NEVER
        return ProfileHealth.FAILING if self.last_state == "failed" else ProfileHealth.OPEN

    @property
    def tag_list(self) -> list[str]:
        return self.tags.split()

    @property
    def first_box(self) -> Box | None:
        """That of its oldest server; None while it is on none."""
        server = self.servers.select_related("box").order_by("pk").first()
        return server.box if server else None

    @property
    def launch(self) -> Launch:
        if self.current is None:
            raise ValueError(f"Profile {self.slug} has no version.")
        return self.current.launch

    def save_version(
        self, launch: Launch, *, by: User | None, message: str = ""
    ) -> "ProfileVersion":
        with transaction.atomic():
            # Two at once would both want the next number.
            Profile.objects.select_for_update().get(pk=self.pk)
            last = self.versions.order_by("-number").first()
            version = self.versions.create(
                number=last.number + 1 if last else 1,
                author=by,
                message=message,
                spec=launch.to_json(),
            )
            self.current = version
            self.save(update_fields=["current"])
        return version


class ProfileVersion(models.Model):
    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    author = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    message = models.CharField(max_length=200, blank=True)
    spec: Json[dict[str, Any]] = models.JSONField()

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "number"], name="one_version_a_number")
        ]

    def __str__(self) -> str:
        return f"{self.profile} v{self.number}"

    @property
    def label(self) -> str:
        return f"Version {self.number}"

    @property
    def launch(self) -> Launch:
        return Launch.from_json(self.spec)


MOST = 100  # of one profile


class Preset(models.Model):
    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="presets")
    name = models.CharField(max_length=60)
    # As a conversation has them: {"params", "tools", "schema"}. Only browsers read what is in these.
    values: Json[dict[str, Any]] = models.JSONField()
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "name"], name="one_preset_a_name")
        ]

    def __str__(self) -> str:
        return self.name


class EnvironmentGroup(Versioned):
    ABOUT: ClassVar = ("name", "engine", "notes")

    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=100)
    engine = models.CharField(max_length=20, blank=True)  # "": it is good for any
    notes = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    current = models.ForeignKey(
        "EnvironmentVersion", null=True, on_delete=models.SET_NULL, related_name="+"
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def variables(self) -> Launch:
        """A launch that says these variables and nothing else: to show it, and to compare it."""
        if self.current is None:
            raise ValueError(f"Environment group {self.slug} has no version.")
        return self.current.variables

    @property
    def change(self) -> LaunchChange:
        said = self.variables
        return LaunchChange(set_env=said.env, set_secret_env=said.secret_env, reasons=said.reasons)

    def is_for(self, launch: Launch) -> bool:
        return self.engine in ("", launch.engine)

    def save_version(
        self, variables: Launch, *, by: User | None, message: str
    ) -> "EnvironmentVersion":
        with transaction.atomic():
            last = self.versions.order_by("-number").first()
            self.current = self.versions.create(
                number=last.number + 1 if last else 1,
                author=by,
                message=message,
                env=variables.env,
                secret_env=variables.secret_env,
                reasons=variables.reasons,
            )
            self.save(update_fields=["current"])
        return self.current


class EnvironmentVersion(models.Model):
    group = models.ForeignKey(EnvironmentGroup, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    author = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    message = models.CharField(max_length=200, blank=True)
    # Variable -> value; variable -> Secret.pk; variable -> why it is there.
    env: Json[dict[str, str]] = models.JSONField(default=dict)
    secret_env: Json[dict[str, int]] = models.JSONField(default=dict)
    reasons: Json[dict[str, str]] = models.JSONField(default=dict)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["group", "number"], name="one_group_version_a_number")
        ]

    def __str__(self) -> str:
        return f"{self.group} v{self.number}"

    @property
    def label(self) -> str:
        return f"Version {self.number}"

    @property
    def variables(self) -> Launch:
        return only_variables(env=self.env, secret_env=self.secret_env, reasons=self.reasons)


def only_variables(
    *, env: dict[str, str], secret_env: dict[str, int], reasons: dict[str, str]
) -> Launch:
    return Launch(
        engine="", image="", checkpoint="", env=env, secret_env=secret_env, reasons=reasons
    )
