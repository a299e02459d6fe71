"""Keys by which programs and terminals use inferdash in a person's name."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from servers.models.people.role import Permission, Role, lesser
from servers.models.people.user import User

PREFIX = "ifd_"
SHOWN = 12  # characters by which people tell their keys apart
# So long before a key ends its person is told.
ENDS_SOON = timedelta(days=14)
# An hour's use is a line in the table; a row written for each request would be the slowest part.
USED_EVERY = timedelta(minutes=1)


def digest_of(token: str) -> str:
    """256 bits of chance need no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


class KeyQuerySet(models.QuerySet["Key"]):
    def usable(self) -> Self:
        now = timezone.now()
        alive = Q(expires_at=None) | Q(expires_at__gt=now)
        return self.filter(alive, revoked_at=None, person__is_active=True)

    def for_token(self, token: str) -> "Key | None":
        """The key, with its person; None for one that is unknown, over, revoked, or of somebody
        who may not log in any more."""
        if not token.startswith(PREFIX):
            return None
        return self.usable().select_related("person").filter(digest=digest_of(token)).first()

    def ending_soon(self, person: User) -> Self:
        """Of this person, the first to end first."""
        mine = self.usable().filter(person=person, expires_at__lte=timezone.now() + ENDS_SOON)
        return mine.order_by("expires_at")

    def for_more_than_models(self) -> Self:
        return self.filter(only_asks=False)

    def note_use(self, key: "Key") -> None:
        now = timezone.now()
        if key.used_at is None or now - key.used_at >= USED_EVERY:
            self.filter(pk=key.pk).update(used_at=now)

    def revoke(self, key: "Key") -> bool:
        """Whether this call did: a key ends once."""
        return self.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now()) == 1


class Key(models.Model):
    person = models.ForeignKey(User, on_delete=models.CASCADE, related_name="keys")
    name = models.CharField(max_length=80)
    start = models.CharField(max_length=SHOWN)
    digest = models.CharField(max_length=64, unique=True)
    role = models.PositiveSmallIntegerField(choices=Role)  # the most that it may do
    # It opens the gateway alone: whoever has it can ask models, and neither read nor change a thing.
    only_asks = models.BooleanField(default=False)
    # What it may ask engines through the gateway. []: every model; None: as often as it likes.
    models_allowed: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    requests_per_minute = models.PositiveIntegerField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(null=True)  # None: never
    revoked_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True)

    objects = KeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return f"{self.name} ({self.start}…)"

    @property
    def acts_as(self) -> Role:
        """Never more than its person may by now."""
        return lesser(Role(self.role), Role(self.person.role))

    def may(self, permission: Permission) -> bool:
        """What both its own role and its person's, as it is now, permit."""
        return self.person.may(permission) and permission in Role(self.role).permissions

    @property
    def scope(self) -> str:
        if self.only_asks or not self.may(Permission.VIEW):
            return "ask models only"
        return f"what {self.acts_as.label}s may"

    @property
    def is_over(self) -> bool:
        return self.revoked_at is not None or (
            self.expires_at is not None and self.expires_at <= timezone.now()
        )

    @property
    def ends_soon(self) -> bool:
        is_near = self.expires_at is not None and self.expires_at <= timezone.now() + ENDS_SOON
        return is_near and not self.is_over

    @classmethod
    def make(
        cls,
        person: User,
        name: str,
        role: Role,
        *,
        expires_at: datetime | None,
        only_asks: bool = False,
        models_allowed: Sequence[str] = (),
        requests_per_minute: int | None = None,
    ) -> tuple["Key", str]:
        """The key and its token; the token itself is never stored."""
        token = PREFIX + secrets.token_urlsafe(32)
        made = cls.objects.create(
            person=person,
            name=name,
            role=lesser(role, Role(person.role)),
            # Who may only chat has keys for models alone, also after a change of role.
            only_asks=only_asks or not person.may(Permission.VIEW),
            start=token[:SHOWN],
            digest=digest_of(token),
            expires_at=expires_at,
            models_allowed=list(models_allowed),
            requests_per_minute=requests_per_minute,
        )
        return made, token
