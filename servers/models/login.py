"""Failed logins: five of one name from one address lock that pair for a minute."""

import math
import unicodedata
from datetime import timedelta
from ipaddress import IPv6Address, ip_address

from django.db import models
from django.utils import timezone

LOCK_AFTER = 5
LOCKED_FOR = timedelta(minutes=1)


def _pair(username: str, address: str) -> dict[str, str]:
    """The row's key: capitals do not make another name, nor the end of an IPv6 another home."""
    name = unicodedata.normalize("NFKC", username).casefold()[:150]
    try:
        ip = ip_address(address)
    except ValueError:  # a Unix socket has none
        return {"username": name, "address": "0.0.0.0"}  # noqa: S104 - stands for "not known"
    if isinstance(ip, IPv6Address):
        ip = ip.ipv4_mapped or IPv6Address(int(ip) >> 64 << 64)
    return {"username": name, "address": str(ip)}


class LoginFailureQuerySet(models.QuerySet["LoginFailure"]):
    def seconds_locked(self, username: str, address: str) -> int:
        """How long this name may not try again from this address; 0 when it may now."""
        pair = _pair(username, address)
        failure = self.filter(**pair, count__gte=LOCK_AFTER).first()
        if failure is None:
            return 0
        left = failure.last_at + LOCKED_FOR - timezone.now()
        return max(0, math.ceil(left.total_seconds()))

    def take_attempt(self, username: str, address: str) -> bool:
        """Count one attempt, and return whether it may be made.

        Called before the password is looked at: of a hundred guesses that arrive at once, five
        are. An attempt that succeeds is forgotten.
        """
        now = timezone.now()
        self.filter(last_at__lt=now - LOCKED_FOR).delete()
        pair = _pair(username, address)
        failure, _made = self.get_or_create(username=pair["username"], address=pair["address"])
        counted = self.filter(pk=failure.pk, count__lt=LOCK_AFTER).update(
            count=models.F("count") + 1, last_at=now
        )
        return counted == 1

    def forget(self, username: str, address: str) -> None:
        self.filter(**_pair(username, address)).delete()


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
