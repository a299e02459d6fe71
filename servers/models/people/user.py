"""People: who they are, what they may do, how they log in, and the log of what they did."""

import hashlib
import math
import secrets
import unicodedata
from datetime import timedelta
from ipaddress import IPv6Address, ip_address
from typing import Any, ClassVar, Self

from django.conf import settings
from django.contrib.auth.hashers import check_password
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.models import UserManager as BaseUserManager
from django.db import models, transaction
from django.db.models.functions import Lower, Now
from django.db.utils import OperationalError
from django.utils import timezone


class Permission(models.TextChoices):
    """What a view, an operation of the API, a socket or a line of a page asks for."""

    ACCOUNT = "account"  # one's own password and keys
    CHAT = "chat"  # playground and gateway: asks models
    VIEW = "view"  # boxes, servers, profiles, logs, figures
    OPERATE = "operate"  # starts and stops
    EDIT = "edit"  # changes profiles
    ADMINISTER = "administer"  # people, secrets, boxes, dangerous container options


class Role(models.IntegerChoices):
    # The numbers are those of the database, and no order.
    CHAT = 0, "chat"
    VIEWER = 1, "viewer"
    OPERATOR = 2, "operator"
    EDITOR = 3, "editor"
    ADMIN = 4, "admin"

    @property
    def permissions(self) -> frozenset[Permission]:
        return PERMISSIONS[self]

    @property
    def with_article(self) -> str:
        """As a noun with its article: "an editor"."""
        if self is Role.CHAT:
            return "a chat user"
        return f"a {self.label}" if self is Role.VIEWER else f"an {self.label}"


_VIEWER = frozenset({Permission.ACCOUNT, Permission.VIEW})
_OPERATOR = _VIEWER | {Permission.CHAT, Permission.OPERATE}
_EDITOR = _OPERATOR | {Permission.EDIT}
PERMISSIONS: dict[Role, frozenset[Permission]] = {
    Role.CHAT: frozenset({Permission.ACCOUNT, Permission.CHAT}),
    Role.VIEWER: _VIEWER,
    Role.OPERATOR: _OPERATOR,
    Role.EDITOR: _EDITOR,
    Role.ADMIN: _EDITOR | {Permission.ADMINISTER},
}


def roles_with(permission: Permission) -> list[Role]:
    """Those that may do no more than it takes first."""
    found = [role for role in Role if permission in role.permissions]
    return sorted(found, key=lambda role: len(role.permissions))


def name_roles(permission: Permission) -> str:
    """The roles to ask an admin for: "editor", "chat or operator"."""
    found = roles_with(permission)
    least = [
        role for role in found if not any(each.permissions < role.permissions for each in found)
    ]
    # Where the smallest role opens little else, the next one stands beside it.
    if least == [Role.CHAT] and len(found) > 1:
        least = found[:2]
    return " or ".join(role.label for role in least)


def lesser(one: Role, other: Role) -> Role:
    """Of a key and its person: the role that permits no more than the other."""
    return one if one.permissions <= other.permissions else other


class UserManager(BaseUserManager["User"]):
    def get_by_natural_key(self, username: str | None) -> "User":
        """The person of this name, whichever way its capitals are typed."""
        name = models.Value(unicodedata.normalize("NFKC", username or ""))
        return self.alias(folded=Lower("username")).get(folded=Lower(name))

    def create_superuser(self, username: str, *args: Any, **fields: Any) -> "User":
        return super().create_superuser(username, *args, **{"role": Role.ADMIN, **fields})

    def admins(self) -> "models.QuerySet[User]":
        return self.filter(role=Role.ADMIN, is_active=True)

    def change(self, pk: int, *, role: Role | None = None, is_active: bool | None = None) -> bool:
        """Change what is given, and return whether it was; not if no admin would be left."""
        fields = {"role": role, "is_active": is_active}
        given = {name: value for name, value in fields.items() if value is not None}
        takes_admin = is_active is False or (role is not None and role != Role.ADMIN)
        with transaction.atomic():
            # Locked, not only counted: two admins who demote each other at the same moment
            # would each see the other one stay.
            admins = list(self.admins().select_for_update().order_by("pk"))
            if takes_admin and [admin.pk for admin in admins] == [pk]:
                return False
            return self.filter(pk=pk).update(**given) == 1


class User(AbstractUser):
    role = models.PositiveSmallIntegerField(choices=Role, default=Role.VIEWER)

    objects: ClassVar[UserManager] = UserManager()

    class Meta(AbstractUser.Meta):
        constraints = [
            # "Ada" beside "ada" would let one pass for the other.
            models.UniqueConstraint(Lower("username"), name="one_person_a_name")
        ]

    def check_password(self, raw_password: str | None) -> bool:
        kept = self.password
        try:
            return super().check_password(raw_password)
        except OperationalError:
            # It was to be hashed anew, as a newer Django wants it, and the disk may be full: at the
            # next log-in then.
            self.password = kept
            return check_password(raw_password, kept)

    def may(self, permission: Permission) -> bool:
        return self.is_active and permission in Role(self.role).permissions

    @property
    def may_view(self) -> bool:
        return self.may(Permission.VIEW)

    @property
    def may_chat(self) -> bool:
        return self.may(Permission.CHAT)

    @property
    def may_operate(self) -> bool:
        return self.may(Permission.OPERATE)

    @property
    def may_edit(self) -> bool:
        return self.may(Permission.EDIT)

    @property
    def may_administer(self) -> bool:
        return self.may(Permission.ADMINISTER)


LOCK_AFTER = 5
LOCKED_FOR = timedelta(minutes=1)
# Whoever has many addresses gets no further than this.
NAME_LOCK_AFTER = 30
NAME_LOCKED_FOR = timedelta(minutes=15)
_ANYWHERE = "::"  # the address of a name's own row: nobody comes from it
_HERE = "127.0.0.1"


def _name(username: str) -> str:
    """Capitals do not make another one."""
    return unicodedata.normalize("NFKC", username).casefold()[:150]


def _home(address: str) -> str:
    """What one person may have many of is one: the end of an IPv6 address, and loopback."""
    try:
        ip = ip_address(address)
    except ValueError:  # a Unix socket has none
        return "0.0.0.0"  # noqa: S104 - stands for "not known"
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or ip
    if ip.is_loopback:
        return _HERE
    return str(IPv6Address(int(ip) >> 64 << 64)) if isinstance(ip, IPv6Address) else str(ip)


class LoginFailureQuerySet(models.QuerySet["LoginFailure"]):
    def seconds_locked(self, username: str, address: str) -> int:
        """How long this name may not try again from this address; 0 when it may now."""
        pair = self.filter(username=_name(username), address=_home(address))
        return _seconds_left(pair.filter(count__gte=LOCK_AFTER).first(), LOCKED_FOR)

    def seconds_name_locked(self, username: str) -> int:
        """How long this name may not try again from anywhere; 0 when it may now."""
        return _seconds_left(
            self._of_name(username).filter(count__gte=NAME_LOCK_AFTER).first(), NAME_LOCKED_FOR
        )

    def take_attempt(self, username: str, address: str) -> bool:
        """Count one attempt, and return whether it may be made.

        Called before the password is looked at: of a hundred guesses that arrive at once, five
        are. An attempt that succeeds is forgotten. What the pair may not try does not count
        against the name.
        """
        now = timezone.now()
        names = models.Q(address=_ANYWHERE)
        self.filter(~names, last_at__lt=now - LOCKED_FOR).delete()
        self.filter(names, last_at__lt=now - NAME_LOCKED_FOR).delete()
        name = _name(username)
        return self._add(name, _home(address), LOCK_AFTER) and self._add(
            name, _ANYWHERE, NAME_LOCK_AFTER
        )

    def _add(self, name: str, address: str, most: int) -> bool:
        failure, _made = self.get_or_create(username=name, address=address)
        counted = self.filter(pk=failure.pk, count__lt=most).update(
            count=models.F("count") + 1, last_at=timezone.now()
        )
        return counted == 1

    def forget(self, username: str, address: str) -> None:
        """The attempt has succeeded. Of the name it takes back its own alone: others guess on."""
        self.filter(username=_name(username), address=_home(address)).delete()
        of_name = self._of_name(username)
        of_name.filter(count__gt=1).update(count=models.F("count") - 1)
        of_name.filter(count__lte=1).delete()

    def open(self, username: str) -> None:
        """Whoever has this name may try again, from anywhere."""
        self.filter(username=_name(username)).delete()

    def _of_name(self, username: str) -> Self:
        return self.filter(username=_name(username), address=_ANYWHERE)


def _seconds_left(failure: "LoginFailure | None", span: timedelta) -> int:
    if failure is None:
        return 0
    left = failure.last_at + span - timezone.now()
    return max(0, math.ceil(left.total_seconds()))


class LoginFailure(models.Model):
    username = models.CharField(max_length=150)
    address = models.GenericIPAddressField()
    count = models.PositiveSmallIntegerField(default=0)
    last_at = models.DateTimeField(default=timezone.now, db_index=True)

    objects = LoginFailureQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["username", "address"], name="one_count")]

    def __str__(self) -> str:
        return f"{self.username} from {self.address}: {self.count}"


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


class AuditEntry(models.Model):
    at = models.DateTimeField(default=timezone.now, db_index=True)
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    action = models.CharField(max_length=60)  # "start server", "change role"
    subject = models.CharField(max_length=200)  # the name of what it was done to
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"{self.by} {self.action} {self.subject}"

    @classmethod
    def note(cls, by: User | None, action: str, subject: object, **detail: Any) -> "AuditEntry":
        # Entries of all boxes stand in one order, and their clocks differ: a box notes the hub's time.
        at = Now() if settings.WIRE == "box" else timezone.now()
        return cls.objects.create(
            at=at, by=by, action=action, subject=str(subject)[:200], detail=detail
        )
