"""How much was asked of models, added up by day: kept when single requests are forgotten."""

from collections import Counter
from collections.abc import Iterable
from datetime import date
from typing import Any, Self

from django.db import models
from django.db.models import F, Sum
from django.utils import timezone

from servers.models.key import Key
from servers.models.request import Request
from servers.models.user import User

COUNTS = ("requests", "failed", "cancelled", "read", "cached", "written")
# By which it can be added up, and the column that names it.
GROUPS = {
    "model": "model",
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

    def since(self, day: date) -> Self:
        return self.filter(day__gte=day)

    def added_up(self, by: str) -> list[dict[str, Any]]:
        """`by` is of GROUPS: its name and the counts, the most tokens first."""
        sums = {name: Sum(name) for name in COUNTS}
        found = self.order_by().values(name=F(GROUPS[by])).annotate(**sums)
        rows: list[dict[str, Any]] = [dict(row) for row in found]
        return sorted(rows, key=lambda row: (-row["read"] - row["written"], -row["requests"]))

    def by_day(self) -> dict[date, tuple[int, int]]:
        """Tokens read and written."""
        found = self.order_by("day").values_list("day").annotate(Sum("read"), Sum("written"))
        return {day: (read, written) for day, read, written in found}


class Usage(models.Model):
    day = models.DateField(db_index=True)  # in the time zone of the installation
    key = models.ForeignKey(Key, null=True, on_delete=models.SET_NULL, related_name="+")
    person = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    model = models.CharField(max_length=200, blank=True)  # as it was asked for
    server = models.CharField(max_length=63, blank=True)  # "": none was found
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
