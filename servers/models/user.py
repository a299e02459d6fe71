"""People: who they are, what they may do, and the links that let them in."""

import hashlib
import math
import secrets
from datetime import timedelta
from typing import Any, ClassVar, Self

from django.contrib.auth.models import AbstractUser
from django.contrib.auth.models import UserManager as BaseUserManager
from django.db import models
from django.utils import timezone


class Role(models.IntegerChoices):
    """Each role may do everything that the ones before it may."""

    VIEWER = 1, "viewer"  # looks
    OPERATOR = 2, "operator"  # starts, stops, chats
    EDITOR = 3, "editor"  # changes profiles
    ADMIN = 4, "admin"  # people, secrets, boxes, dangerous container options


class UserManager(BaseUserManager["User"]):
    def admins(self) -> "models.QuerySet[User]":
        return self.filter(role=Role.ADMIN, is_active=True)

    def take_from_admins(self, person: "User", **change: Any) -> bool:
        """Demote or disable an admin, unless nobody would be left; one UPDATE decides."""
        others = self.admins().exclude(pk=person.pk)
        return self.filter(models.Exists(others), pk=person.pk).update(**change) == 1


class User(AbstractUser):
    role = models.PositiveSmallIntegerField(choices=Role, default=Role.VIEWER)

    objects: ClassVar[UserManager] = UserManager()

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

    def use(self, invite: "Invite") -> bool:
        """Spend the link, and return whether this call did: two people may open it at once."""
        return self.open().filter(pk=invite.pk).update(used_at=timezone.now()) == 1


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

    def __str__(self) -> str:
        return f"invite for {self.person or self.get_role_display()}"

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


LOCK_AFTER = 5
LOCKED_FOR = timedelta(minutes=1)


class LoginFailureQuerySet(models.QuerySet["LoginFailure"]):
    def seconds_locked(self, username: str, address: str) -> int:
        """How long this name may not try again from this address; 0 when it may now."""
        failure = self.filter(username=username, address=address, count__gte=LOCK_AFTER).first()
        if failure is None:
            return 0
        left = failure.last_at + LOCKED_FOR - timezone.now()
        return max(0, math.ceil(left.total_seconds()))

    def count_one(self, username: str, address: str) -> None:
        """One more failure; a count whose minute is over begins anew."""
        over = timezone.now() - LOCKED_FOR
        self.filter(username=username, address=address, last_at__lt=over).delete()
        failure, _made = self.get_or_create(username=username, address=address)
        self.filter(pk=failure.pk).update(count=models.F("count") + 1, last_at=timezone.now())

    def forget(self, username: str, address: str) -> None:
        self.filter(username=username, address=address).delete()


class LoginFailure(models.Model):
    """Failed logins of one name from one address; five lock that pair for a minute."""

    username = models.CharField(max_length=150)
    address = models.GenericIPAddressField()
    count = models.PositiveSmallIntegerField(default=0)
    last_at = models.DateTimeField(default=timezone.now)

    objects = LoginFailureQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["username", "address"], name="one_count")]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}: {self.count}"
