"""Ports on which programs asked engines before inferdash was here, and may go on to."""

from ipaddress import IPv4Address, IPv6Address, ip_address

from django.db import models
from django.utils import timezone

from servers.models.box import Box
from servers.models.people.role import Permission
from servers.models.people.user import User


class LegacyPort(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="legacy_ports")
    port = models.PositiveIntegerField()
    # What is asked for where a request names nothing that is known; "": nothing.
    model = models.CharField(max_length=200, blank=True)
    # Networks whose programs need no key: ["192.168.1.0/24"].
    sources: "models.JSONField[list[str], list[str]]" = models.JSONField(default=list)
    # In whose name they ask.
    made_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    problem = models.CharField(max_length=300, blank=True)  # why it is not open; "": it is

    class Meta:
        ordering = ["port"]
        constraints = [
            models.UniqueConstraint(fields=["box", "port"], name="one_old_port_of_a_number")
        ]

    def __str__(self) -> str:
        return f"port {self.port}"

    @property
    def needs_no_key(self) -> bool:
        """Whether anybody is let in without one: not when nobody may vouch for it any more."""
        by = self.made_by
        return by is not None and by.may(Permission.CHAT)


def plain(address: str) -> IPv4Address | IPv6Address:
    """IPv4 also where it comes over a socket of IPv6. Raises ValueError."""
    found = ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found
