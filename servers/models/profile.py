"""Launch profiles and their versions. A version never changes: a save makes the next one."""

from typing import Any, Self

from django.db import models, transaction
from django.utils import timezone

from servers.engines.launch import Launch
from servers.models.user import User


class ProfileQuerySet(models.QuerySet["Profile"]):
    def active(self) -> Self:
        return self.filter(archived_at=None)

    def for_list(self, text: str = "") -> Self:
        """Those whose name, notes or launch contain the text, with what a row shows."""
        found = self.active().select_related("current", "owner").prefetch_related("servers__run")
        for word in text.split():
            found = found.filter(
                models.Q(name__icontains=word)
                | models.Q(notes__icontains=word)
                | models.Q(current__spec__checkpoint__icontains=word)
                | models.Q(current__spec__image__icontains=word)
                | models.Q(current__spec__engine__icontains=word)
            )
        return found


class Profile(models.Model):
    slug = models.SlugField(max_length=63, unique=True)
    name = models.CharField(max_length=100)
    notes = models.TextField(blank=True)
    owner = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="profiles")
    created_at = models.DateTimeField(default=timezone.now)
    archived_at = models.DateTimeField(null=True, blank=True)
    current = models.ForeignKey(
        "ProfileVersion", null=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = ProfileQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def launch(self) -> Launch:
        if self.current is None:
            raise ValueError(f"Profile {self.slug} has no version.")
        return self.current.launch

    def save_version(
        self, launch: Launch, *, by: User | None, message: str = ""
    ) -> "ProfileVersion":
        with transaction.atomic():
            last = self.versions.order_by("-number").first()
            version = self.versions.create(
                number=last.number + 1 if last else 1,
                author=by,
                message=message,
                spec=launch.to_json(),
            )
            self.current = version
            self.save()
        return version


class ProfileVersion(models.Model):
    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    author = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    message = models.CharField(max_length=200, blank=True)
    spec: "models.JSONField[dict[str, Any], dict[str, Any]]" = models.JSONField()

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "number"], name="one_version_a_number")
        ]

    def __str__(self) -> str:
        return f"{self.profile} v{self.number}"

    @property
    def launch(self) -> Launch:
        return Launch.from_json(self.spec)
