"""Requests to the gateway (never the text, only the outcome), and legacy ports."""

from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Self

from django.db import models
from django.db.models import Q
from django.utils import timezone

from servers.launch import numbers
from servers.models.box import Box
from servers.models.people.key import Key
from servers.models.people.user import Permission, User
from servers.models.runs.run import Run


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


KEPT = timedelta(days=30)


LATEST = 50  # on a page


class RequestQuerySet(models.QuerySet["Request"]):
    def for_table(self) -> Self:
        """With what a row of a table says, the latest first."""
        return self.select_related("person", "key", "run__server")

    def visible_to(self, person: User) -> Self:
        """All of them to who may look at servers, to others their own."""
        return self.for_table() if person.may_view else self.for_table().filter(person=person)

    def search(self, text: str, *, also_causes: bool) -> Self:
        """Those in which each of the words stands: person, key, model, server, status.

        With `also_causes` the error too, which quotes logs.
        """
        found = self
        for word in text.split():
            known = Q(model__icontains=word) | Q(server__icontains=word) | Q(path__icontains=word)
            known |= Q(person__username__icontains=word) | Q(key__name__icontains=word)
            known |= Q(source__icontains=word)
            if also_causes:
                known |= Q(error__icontains=word)
            status = numbers.whole(word)
            found = found.filter(known if status is None else known | Q(status=status))
        return found

    def forget_old(self) -> None:
        self.filter(at__lt=timezone.now() - KEPT).delete()


class Request(models.Model):
    at = models.DateTimeField(db_index=True)  # when it came
    key = models.ForeignKey(Key, null=True, on_delete=models.SET_NULL, related_name="requests")
    person = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    run = models.ForeignKey(Run, null=True, on_delete=models.SET_NULL, related_name="requests")
    # Of who needed no key: by which legacy port, and from where.
    old_port = models.ForeignKey(
        LegacyPort, null=True, on_delete=models.SET_NULL, related_name="requests"
    )
    source = models.GenericIPAddressField(null=True)
    server = models.CharField(max_length=80, blank=True)  # "": none was found
    model = models.CharField(max_length=200, blank=True)  # as it was asked for
    path = models.CharField(max_length=200)
    status = models.PositiveSmallIntegerField()  # 0: it ended before there was one
    cancelled = models.BooleanField(default=False)  # by who asked
    first = models.FloatField(null=True)  # seconds until the first byte
    duration = models.FloatField()  # seconds
    # As the answer says; None: it does not.
    prompt_tokens = models.PositiveIntegerField(null=True)
    cached_tokens = models.PositiveIntegerField(null=True)
    completion_tokens = models.PositiveIntegerField(null=True)
    error = models.CharField(max_length=500, blank=True)  # the gateway's own; "": none

    objects = RequestQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-pk"]

    def __str__(self) -> str:
        return f"{self.model} at {self.at:%H:%M:%S}"

    @property
    def what(self) -> str:
        """Which of the APIs, without what they all begin with."""
        return self.path.removeprefix("/v1/")
