"""Usage of models by day: kept when single requests are deleted."""

from collections import Counter
from collections.abc import Iterable
from datetime import date
from typing import Any, Self

from django.db import models
from django.db.models import F, Sum
from django.utils import timezone

from servers.models.gateway.request import Request
from servers.models.people.key import Key
from servers.models.people.user import User
from servers.models.runs.run import Run

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
