"""The admins' page of the audit log, and the log as a table."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby

from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone

from servers.contexts import activity as sentences
from servers.models import AuditEntry, Permission, Server, User
from servers.views import responses
from servers.views.access import PersonRequest, get

PER_PAGE = 100
# What actions of a kind begin with; all others are changes.
KINDS = {
    "starts": ("start", "stop", "restart", "keep running", "let requests", "give up waiting"),
    "people": (
        "invite", "end invite", "join", "change role", "change password", "reset", "enable person",
        "disable person",
    ),
    "keys": ("make key", "revoke key"),
}  # fmt: skip
TITLES = {"": "All", "starts": "Starts", "changes": "Changes", "people": "People", "keys": "Keys"}
NOBODY = "inferdash"  # who has done what no person did


@dataclass(frozen=True, kw_only=True)
class ActivityRow:
    entry: AuditEntry
    kind: str
    did: str  # in the past tense, before what it was done to
    more: str
    server: str  # its slug, where the subject is one that is there


@dataclass(frozen=True, kw_only=True)
class ActivityDay:
    at: date
    title: str  # "" where the date says it
    rows: tuple[ActivityRow, ...]


@get("activity/", Permission.ADMINISTER)
def activity(request: PersonRequest) -> HttpResponse:
    page = Paginator(_filter_entries(request), PER_PAGE).get_page(request.GET.get("page"))
    asked = {name: request.GET.get(name, "") for name in ("q", "kind", "who")}
    context = {
        **asked,
        "page": page,
        "days": _list_days(page.object_list),
        "kinds": TITLES.items(),
        "people": [*User.objects.order_by("username").values_list("username", flat=True), NOBODY],
    }
    return render(request, "people/activity.html", context)


@get("activity.csv", Permission.ADMINISTER)
async def activity_csv(request: PersonRequest) -> StreamingHttpResponse:
    entries = _filter_entries(request)
    head = ["when", "who", "what", "to what", "more"]
    return responses.send_table("inferdash-activity.csv", head, _rows(entries))


def _filter_entries(request: HttpRequest) -> QuerySet[AuditEntry]:
    found = AuditEntry.objects.select_related("by")
    for word in request.GET.get("q", "").split():
        found = found.filter(
            Q(by__username__icontains=word)
            | Q(action__icontains=word)
            | Q(action__in=_find_actions(word))
            | Q(subject__icontains=word)
        )
    if who := request.GET.get("who"):
        found = found.filter(by=None) if who == NOBODY else found.filter(by__username=who)
    kind = request.GET.get("kind")
    if kind == "changes":
        return found.exclude(_begins(*KINDS))
    return found.filter(_begins(kind)) if kind in KINDS else found


def _find_actions(word: str) -> list[str]:
    """Those in whose words on the page it stands."""
    every = AuditEntry.objects.order_by().values_list("action", flat=True).distinct()
    return [each for each in every if word.casefold() in sentences.describe_action(each)]


def _begins(*kinds: str) -> Q:
    query = Q()
    for kind in kinds:
        for words in KINDS[kind]:
            query |= Q(action__startswith=words)
    return query


def _find_kind(action: str) -> str:
    return next((kind for kind, words in KINDS.items() if action.startswith(words)), "changes")


def _list_days(entries: Iterable[AuditEntry]) -> list[ActivityDay]:
    shown = list(entries)
    subjects = {entry.subject for entry in shown}
    slugs = set(Server.objects.present().filter(slug__in=subjects).values_list("slug", flat=True))
    today = timezone.localdate()
    titles = {today: "Today", today - timedelta(days=1): "Yesterday"}
    days = groupby(shown, lambda entry: timezone.localdate(entry.at))
    return [
        ActivityDay(
            at=at,
            title=titles.get(at, ""),
            rows=tuple(
                ActivityRow(
                    entry=entry,
                    kind=_find_kind(entry.action),
                    did=sentences.describe_action(entry.action),
                    more=sentences.describe_detail(entry.action, entry.detail),
                    server=entry.subject if entry.subject in slugs else "",
                )
                for entry in those
            ),
        )
        for at, those in days
    ]


async def _rows(entries: QuerySet[AuditEntry]) -> AsyncIterator[list[str]]:
    async for entry in entries.aiterator():
        more = ", ".join(f"{key} {value}" for key, value in entry.detail.items())
        who = entry.by.username if entry.by else NOBODY
        yield [entry.at.isoformat(), who, entry.action, entry.subject, more]
