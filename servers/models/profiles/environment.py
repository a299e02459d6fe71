"""Environment groups: named sets of variables that a team lays over its profiles, in versions."""

from typing import ClassVar

from django.db import models, transaction
from django.utils import timezone

from servers.launch.engines.change import LaunchChange
from servers.launch.engines.launch import Launch
from servers.models.people.user import User
from servers.models.profiles.versioned import Versioned


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
    env: "models.JSONField[dict[str, str], dict[str, str]]" = models.JSONField(default=dict)
    secret_env: "models.JSONField[dict[str, int], dict[str, int]]" = models.JSONField(default=dict)
    reasons: "models.JSONField[dict[str, str], dict[str, str]]" = models.JSONField(default=dict)

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
