"""People: who they are, what they may do, and the links that let them in."""

import hashlib
import secrets
from datetime import timedelta
from typing import Self

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone


class Role(models.IntegerChoices):
    """Each role may do everything that the ones before it may."""

    VIEWER = 1, "viewer"  # looks
    OPERATOR = 2, "operator"  # starts, stops, chats
    EDITOR = 3, "editor"  # changes profiles
    ADMIN = 4, "admin"  # people, secrets, boxes, dangerous container options


class User(AbstractUser):
    role = models.PositiveSmallIntegerField(choices=Role, default=Role.VIEWER)

    def may(self, role: Role) -> bool:
        return self.is_active and self.role >= role

    @property
    def may_operate(self) -> bool:
        return self.may(Role.OPERATOR)

    @property
    def may_edit(self) -> bool:
        return self.may(Role.EDITOR)

    @property
    def may_administer(self) -> bool:
        return self.may(Role.ADMIN)


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class InviteQuerySet(models.QuerySet["Invite"]):
    def open(self) -> Self:
        return self.filter(used_at=None, expires_at__gt=timezone.now())

    def for_token(self, token: str) -> "Invite | None":
        return self.open().filter(token_hash=token_hash(token)).first()


class Invite(models.Model):
    """A one-time link: it makes a new person with a role, or resets one person's password."""

    token_hash = models.CharField(max_length=64, unique=True)
    role = models.PositiveSmallIntegerField(choices=Role)
    person = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="resets")
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    objects = InviteQuerySet.as_manager()

    @classmethod
    def make(
        cls, *, role: Role, by: User | None, person: User | None = None
    ) -> tuple["Invite", str]:
        """The invite and its token; the token itself is never stored."""
        token = secrets.token_urlsafe(32)
        invite = cls.objects.create(
            token_hash=token_hash(token),
            role=role,
            person=person,
            created_by=by,
            expires_at=timezone.now() + timedelta(days=3),
        )
        return invite, token


class LoginFailure(models.Model):
    """Failed logins of one name from one address; five lock that pair for a minute."""

    username = models.CharField(max_length=150)
    address = models.GenericIPAddressField()
    count = models.PositiveSmallIntegerField(default=0)
    last_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["username", "address"], name="one_count")]
