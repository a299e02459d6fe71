"""Failed logins: five of one name from one address lock that pair for a minute, and thirty of one
name from anywhere lock the name for a quarter of an hour.
"""

import hashlib
import math
import secrets
import unicodedata
from datetime import timedelta
from ipaddress import IPv6Address, ip_address
from typing import Self

from django.db import models
from django.utils import timezone

from servers.models.people.user import Role, User

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
