"""The admins' page of the audit log, and the log as a table."""

from collections.abc import AsyncIterator

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from servers.models import AuditEntry, Permission
from servers.views import spreadsheet
from servers.views.access import PersonRequest, allow

PER_PAGE = 100


@require_GET
@allow(Permission.ADMINISTER)
def activity(request: PersonRequest) -> HttpResponse:
    q = request.GET.get("q", "")
    page = Paginator(_filter_entries(q), PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "people/activity.html", {"entries": page, "q": q})


@require_GET
@allow(Permission.ADMINISTER)
async def activity_csv(request: PersonRequest) -> StreamingHttpResponse:
    entries = _filter_entries(request.GET.get("q", ""))
    head = ["when", "who", "what", "to what", "more"]
    return spreadsheet.download("inferdash-activity.csv", head, _rows(entries))


def _filter_entries(q: str) -> QuerySet[AuditEntry]:
    found = AuditEntry.objects.select_related("by")
    for word in q.split():
        found = found.filter(
            Q(by__username__icontains=word) | Q(action__icontains=word) | Q(subject__icontains=word)
        )
    return found


async def _rows(entries: QuerySet[AuditEntry]) -> AsyncIterator[list[str]]:
    async for entry in entries.aiterator():
        more = ", ".join(f"{key} {value}" for key, value in entry.detail.items())
        who = entry.by.username if entry.by else "inferdash"
        yield [entry.at.isoformat(), who, entry.action, entry.subject, more]
