"""One-time links: they make a new person with a role, or give one person a new password."""

import hashlib
import secrets
from datetime import timedelta
from typing import Self

from django.db import models
from django.utils import timezone

from servers.models.people.role import Role
from servers.models.people.user import User

VALID_FOR = timedelta(days=3)


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class InviteQuerySet(models.QuerySet["Invite"]):
    def open(self) -> Self:
        """Neither used nor over. The first admin's link is over as soon as there is an admin."""
        has_admin = models.Exists(User.objects.admins())
        return self.filter(
            models.Q(is_first=False) | ~has_admin, used_at=None, expires_at__gt=timezone.now()
        )

    def for_token(self, token: str) -> "Invite | None":
        found = self.open().select_related("person").filter(token_hash=token_hash(token)).first()
        if found is not None and found.person is not None and not found.person.is_active:
            return None
        return found

    def use(self, invite: "Invite") -> bool:
        """Spend the link, and return whether this call did: two people may open it at once."""
        return self.open().filter(pk=invite.pk).update(used_at=timezone.now()) == 1

    def end(self) -> int:
        """Close those of these that are still open, and return how many there were."""
        return self.filter(used_at=None, expires_at__gt=timezone.now()).update(
            expires_at=timezone.now()
        )


class Invite(models.Model):
    token_hash = models.CharField(max_length=64, unique=True)
    role = models.PositiveSmallIntegerField(choices=Role)
    person = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="resets")
    is_first = models.BooleanField(default=False)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    objects = InviteQuerySet.as_manager()

    def __str__(self) -> str:
        return f"{self.person}'s new password" if self.person else f"a new {Role(self.role).label}"

    @classmethod
    def make(
        cls, *, role: Role, by: User | None, person: User | None = None, is_first: bool = False
    ) -> tuple["Invite", str]:
        """The invite and its token; the token itself is never stored."""
        # The newest link is the one that somebody was given: earlier ones end.
        if person is not None:
            cls.objects.filter(person=person).end()
        if is_first:
            cls.objects.filter(is_first=True).end()
        token = secrets.token_urlsafe(32)
        invite = cls.objects.create(
            token_hash=token_hash(token),
            role=role,
            person=person,
            is_first=is_first,
            created_by=by,
            expires_at=timezone.now() + VALID_FOR,
        )
        return invite, token
