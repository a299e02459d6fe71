"""Requests through the gateway, their figures, legacy ports, and calls captured with all that was said."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Self

from django.db import models
from django.db.models import F, Q, Sum
from django.utils import timezone
from django.utils.text import Truncator

from servers.launch import numbers
from servers.models.box import Box
from servers.models.json_values import Json
from servers.models.people.key import Key
from servers.models.people.user import Permission, User
from servers.models.runs.run import Run


class LegacyPort(models.Model):
    box = models.ForeignKey(Box, on_delete=models.CASCADE, related_name="legacy_ports")
    port = models.PositiveIntegerField()
    # What is asked for where a request names nothing that is known; "": nothing.
    model = models.CharField(max_length=200, blank=True)
    # Networks whose programs need no key: ["192.168.1.0/24"].
    sources: Json[list[str]] = models.JSONField(default=list)
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
        return self.select_related("person", "key", "run__server__box")

    def visible_to(self, person: User) -> Self:
        """All of them to who may look at servers, to others their own."""
        return self.for_table() if person.may_view else self.for_table().filter(person=person)

    def search(self, text: str, *, also_causes: bool) -> Self:
        """Those in which each of the words stands: person, key, model, server, status.

        With `also_causes` the box and the error too, which quotes logs.
        """
        found = self
        for word in text.split():
            known = Q(model__icontains=word) | Q(server__icontains=word) | Q(path__icontains=word)
            known |= Q(person__username__icontains=word) | Q(key__name__icontains=word)
            known |= Q(source__icontains=word)
            if also_causes:
                known |= Q(error__icontains=word) | Q(run__server__box__slug__icontains=word)
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


COUNTS = ("requests", "failed", "cancelled", "read", "cached", "written")
# By which it can be added up beside its model, and the column that names it.
GROUPS = {
    "server": "server",
    "key": "key__name",
    "person": "person__username",
}


class UsageQuerySet(models.QuerySet["Usage"]):
    def add(self, requests: Iterable[Request]) -> None:
        """Count requests that have just been written down."""
        found: dict[tuple[Any, ...], Counter[str]] = {}
        for each in requests:
            # Of who hung up, too: the engine has read its question.
            day = timezone.localtime(each.at).date()
            about = day, each.key_id, each.person_id, each.model, each.server
            found.setdefault(about, Counter()).update(
                requests=1,
                failed=int(each.status >= 400),
                cancelled=int(each.cancelled),
                read=each.prompt_tokens or 0,
                cached=each.cached_tokens or 0,
                written=each.completion_tokens or 0,
            )
        names = ("day", "key_id", "person_id", "model", "server")
        for about, counts in found.items():
            row = dict(zip(names, about, strict=True))
            more = {name: F(name) + counts[name] for name in COUNTS}
            # A second web process may make the same row at this moment: then there are two.
            first = self.filter(**row).values_list("pk", flat=True).first()
            if first is None or not self.filter(pk=first).update(**more):
                self.create(**row, **counts)

    def from_day(self, day: date) -> Self:
        return self.filter(day__gte=day)

    def added_up(self, by: str) -> list[dict[str, Any]]:
        """`by` is of GROUPS: its name and the counts, the most tokens first."""
        sums = {name: Sum(name) for name in COUNTS}
        found = self.order_by().values(name=F(GROUPS[by])).annotate(**sums)
        rows: list[dict[str, Any]] = [dict(row) for row in found]
        return sorted(rows, key=lambda row: (-row["read"] - row["written"], -row["requests"]))

    def by_model(self) -> list[dict[str, Any]]:
        """The models that were served, the most tokens first, each with the other names by which
        it was asked for; last, under no name (None), those that no server has."""
        served = ServedNames(self)
        sums = {name: Sum(name) for name in COUNTS}
        found: dict[str | None, Counter[str]] = {}
        asked: dict[str | None, set[str]] = {}
        used: Any = self.order_by().values("day", "server", "model").annotate(**sums)
        for row in used:
            name = served.name(row["server"], row["model"], row["day"])
            found.setdefault(name, Counter()).update({each: row[each] for each in COUNTS})
            asked.setdefault(name, set()).update({row["model"]} - {name, ""})
        rows = [{"name": name, "asked": sorted(asked[name]), **found[name]} for name in found]
        return sorted(
            rows,
            key=lambda row: (row["name"] is None, -row["read"] - row["written"], -row["requests"]),
        )

    def by_day(self) -> dict[date, tuple[int, int]]:
        """Tokens read and written."""
        found = self.order_by("day").values_list("day").annotate(Sum("read"), Sum("written"))
        return {day: (read, written) for day, read, written in found}


class ServedNames:
    """By which name each server served its model, day by day: rows have the name that was asked."""

    def __init__(self, used: UsageQuerySet) -> None:
        servers = set(used.order_by().exclude(server="").values_list("server", flat=True))
        runs = Run.objects.filter(server__slug__in=servers).exclude(served_name="")
        self._names: dict[str, list[tuple[date, str]]] = {}
        found = runs.order_by("created_at", "pk")
        for server, at, name in found.values_list("server__slug", "created_at", "served_name"):
            names = self._names.setdefault(server, [])
            if not names or names[-1][1] != name:
                names.append((timezone.localtime(at).date(), name))

    def name(self, server: str, asked: str, day: date) -> str | None:
        """None: no server has a model of the name that was asked for."""
        if not server:
            return None if asked else ""
        names = self._names.get(server, [])
        if not names or any(name == asked for _since, name in names):
            return asked
        earlier = [name for since, name in names if since <= day]
        return earlier[-1] if earlier else names[0][1]


class Usage(models.Model):
    day = models.DateField(db_index=True)  # in the time zone of the installation
    key = models.ForeignKey(Key, null=True, on_delete=models.SET_NULL, related_name="+")
    person = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    model = models.CharField(max_length=200, blank=True)  # as it was asked for
    server = models.CharField(max_length=80, blank=True)  # "": none was found
    requests = models.PositiveBigIntegerField(default=0)
    failed = models.PositiveBigIntegerField(default=0)
    cancelled = models.PositiveBigIntegerField(default=0)
    # Tokens, as far as answers say.
    read = models.PositiveBigIntegerField(default=0)
    cached = models.PositiveBigIntegerField(default=0)  # of those read
    written = models.PositiveBigIntegerField(default=0)

    objects = UsageQuerySet.as_manager()

    class Meta:
        ordering = ["-day", "-pk"]

    def __str__(self) -> str:
        return f"{self.model} on {self.day}"


CALLS_KEPT = timedelta(days=7)
# Bytes of text that one may keep: then it ends, before a day of a busy box fills the disk.
MOST = 512 * 2**20


class CaptureQuerySet(models.QuerySet["Capture"]):
    def active(self) -> Self:
        """By the clock: one ends at its time whether anybody looks or not."""
        return self.filter(ended_at=None, until__gt=timezone.now()).select_related("by")

    def end(self, capture: "Capture", by: User | None) -> bool:
        """Whether this call did."""
        now = timezone.now()
        return bool(self.active().filter(pk=capture.pk).update(ended_at=now, ended_by=by))

    def add(self, capture: "Capture", exchanges: int, size: int) -> bool:
        """Whether it is full by this, and has ended."""
        more = {"exchanges": F("exchanges") + exchanges, "size": F("size") + size}
        self.filter(pk=capture.pk).update(**more)
        full = self.filter(pk=capture.pk, ended_at=None, size__gte=MOST)
        return bool(full.update(ended_at=timezone.now()))


class Capture(models.Model):
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.CharField(max_length=200)
    # The name of a server or model: what is passed on to others is not kept. "": of all.
    only = models.CharField(max_length=200, blank=True)
    began_at = models.DateTimeField(default=timezone.now)
    until = models.DateTimeField(db_index=True)
    ended_at = models.DateTimeField(null=True)  # before its time
    ended_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    exchanges = models.PositiveIntegerField(default=0)
    size = models.PositiveBigIntegerField(default=0)  # bytes of text

    objects = CaptureQuerySet.as_manager()

    class Meta:
        ordering = ["-began_at", "-pk"]

    def __str__(self) -> str:
        return self.only or "all servers"

    @property
    def is_on(self) -> bool:
        return self.ended_at is None and timezone.now() < self.until

    @property
    def over_at(self) -> datetime:
        return self.ended_at or self.until

    @property
    def is_full(self) -> bool:
        return self.ended_at is not None and self.ended_by is None and self.size >= MOST


class CapturedCallQuerySet(models.QuerySet["CapturedCall"]):
    def recent(self) -> Self:
        """Those young enough: what nobody has deleted yet is not shown either."""
        return self.filter(request__at__gte=timezone.now() - CALLS_KEPT)

    def for_table(self) -> Self:
        """With what a row of a table says, the latest first."""
        found = self.select_related(
            "request__person", "request__key", "request__run__server", "capture__by"
        )
        return found.order_by("-request__at", "-pk")

    def search(self, text: str) -> Self:
        """Those in which each of the words stands: in what was said, or in what a request is
        found by."""
        found = self
        for word in text.split():
            of_request = Q(request__in=Request.objects.order_by().search(word, also_causes=True))
            found = found.filter(
                of_request | Q(asked__icontains=word) | Q(answered__icontains=word)
            )
        return found

    def forget_old(self) -> None:
        self.filter(request__at__lt=timezone.now() - CALLS_KEPT).delete()


class CapturedCall(models.Model):
    """One question and its answer: the words of a request, which says all else."""

    request = models.OneToOneField(Request, on_delete=models.CASCADE, related_name="captured_call")
    capture = models.ForeignKey(Capture, on_delete=models.CASCADE, related_name="kept")
    asked = models.TextField(blank=True)
    answered = models.TextField(blank=True)
    # Bytes that are not in them.
    asked_left_out = models.PositiveBigIntegerField(default=0)
    answered_left_out = models.PositiveBigIntegerField(default=0)

    objects = CapturedCallQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"{self.request}"

    @property
    def gist(self) -> str:
        """What a line of a list says: the beginning of what was asked last."""
        return Truncator(" ".join(_last_said(self.asked).split())).chars(120) or "no text"

    @property
    def size(self) -> int:
        return len(self.asked.encode()) + len(self.answered.encode())


def _last_said(asked: str) -> str:
    try:
        said = json.loads(asked)
    except (ValueError, RecursionError):
        return asked[:1000]
    for name in ("messages", "input", "prompt"):
        found = said.get(name) if isinstance(said, dict) else None
        if text := _text(found):
            return text[:1000]
    return asked[:1000]


def _text(said: object, deep: int = 4) -> str:
    """The text itself, of the last message, or of the parts of one."""
    if isinstance(said, str):
        return said
    if isinstance(said, list) and deep:
        return next((text for each in reversed(said) if (text := _text(each, deep - 1))), "")
    if isinstance(said, dict) and deep:
        return _text(said.get("content", said.get("text")), deep - 1)
    return ""
