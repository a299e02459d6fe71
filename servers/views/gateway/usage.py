"""The pages and the file of usage: tokens and requests by day, model, server, key and person."""

from collections.abc import AsyncIterator, Sequence
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

from asgiref.sync import sync_to_async
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from servers.judge.gateway import usage_chart
from servers.launch import numbers
from servers.models import Permission, Usage
from servers.models.gateway.usage import COUNTS, GROUPS, ServedNames
from servers.views import spreadsheet
from servers.views.access import PersonRequest, allow

# Days, with today.
SPANS = {1: "Today", 7: "7 days", 30: "30 days", 365: "A year"}
USUALLY = 7
MODEL = "model"
_BY = {MODEL: "Model", "server": "Server", "key": "Key", "person": "Person"}
# What stands in place of a name.
_NAMELESS = {
    MODEL: "no model named",
    "server": "no server found",
    "key": "no key",
    "person": "no person",
}


@require_GET
@allow(Permission.OPERATE)
def usage(request: PersonRequest) -> HttpResponse:
    return render(request, "gateway/usage.html", build_usage(request))


def build_usage(request: PersonRequest) -> dict[str, Any]:
    """Of as many days, and added up by what, as the address says."""
    days, by = _days(request), request.GET.get("by", "")
    by = by if by in GROUPS else MODEL
    today = timezone.localdate()
    since = today - timedelta(days=days - 1)
    used = Usage.objects.from_day(since)
    rows = used.by_model() if by == MODEL else used.added_up(by)
    totals = {name: sum(row[name] for row in rows) for name in COUNTS}
    most = max((row["read"] + row["written"] for row in rows), default=0)
    for row in rows:
        row["share"] = round(100 * (row["read"] + row["written"]) / most, 1) if most else 0
    return {
        "rows": rows,
        "totals": totals,
        "chart": usage_chart.chart(used.by_day(), since, today) if days > 1 and rows else None,
        "by": by,
        "by_words": _BY[by],
        "nameless": _NAMELESS[by],
        "days": days,
        "spans": [(n, words, urlencode({"days": n, "by": by})) for n, words in SPANS.items()],
        "groups": [(n, words, urlencode({"days": days, "by": n})) for n, words in _BY.items()],
    }


@require_GET
@allow(Permission.OPERATE)
async def usage_csv(request: PersonRequest) -> StreamingHttpResponse:
    days = _days(request)
    today = timezone.localdate()
    head = ["day", "model", "requested as", "server", "key", "person", *COUNTS]
    rows = _rows(today - timedelta(days=days - 1))
    return spreadsheet.download(f"inferdash-usage-{today:%Y%m%d}-{days}d.csv", head, rows)


async def _rows(since: date) -> AsyncIterator[Sequence[object]]:
    for row in await sync_to_async(_read)(since):
        yield ["" if cell is None else cell for cell in row]


def _read(since: date) -> list[tuple[object, ...]]:
    used = Usage.objects.from_day(since).order_by("day", "pk")
    served = ServedNames(used)
    names = ("key__name", "person__username", *COUNTS)
    return [
        (day, served.name(server, model, day), model, server, *rest)
        for day, model, server, *rest in used.values_list("day", "model", "server", *names)
    ]


def _days(request: PersonRequest) -> int:
    said = numbers.whole(request.GET.get("days", ""))
    return said if said in SPANS else USUALLY
