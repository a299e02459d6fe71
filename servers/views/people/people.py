"""Admins' pages for people: invite, role, disable, new password, activity."""

from collections.abc import AsyncIterator

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_POST

from servers import events
from servers.forms.people import RoleForm
from servers.models import AuditEntry, Invite, Permission, Role, User
from servers.views import spreadsheet
from servers.views.access import PersonRequest, allow
from servers.views.people.settings import page

LAST_ADMIN = (
    "{} is the last active admin, so nothing was changed. Make somebody else an admin first."
)


@require_POST
@allow(Permission.ADMINISTER)
def person_invite(request: PersonRequest) -> HttpResponse:
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "There is no such role. Choose one of the list.")
        return redirect("settings")
    with transaction.atomic():
        made = Invite.make(role=form.cleaned_data["role"], by=request.user)
        AuditEntry.note(request.user, "invite", made[0])
    return page(request, link=made)


@require_POST
@allow(Permission.ADMINISTER)
def invite_end(request: PersonRequest, pk: int) -> HttpResponse:
    invite = get_object_or_404(Invite, pk=pk)
    if Invite.objects.filter(pk=pk).end():
        AuditEntry.note(request.user, "end invite", invite)
        messages.success(request, f"The link for {invite} has ended.")
    else:
        messages.info(request, f"The link for {invite} was used or over already.")
    return redirect("settings")


@require_POST
@allow(Permission.ADMINISTER)
def person_reset(request: PersonRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    if not person.is_active:
        messages.error(request, f"{person} is disabled. Enable the account first.")
        return redirect("settings")
    with transaction.atomic():
        made = Invite.make(role=Role(person.role), by=request.user, person=person)
        AuditEntry.note(request.user, "reset link", person)
    return page(request, link=made)


@require_POST
@allow(Permission.ADMINISTER)
def person_role(request: PersonRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, "There is no such role. Choose one of the list.")
        return redirect("settings")
    role: Role = form.cleaned_data["role"]
    with transaction.atomic():
        changed = User.objects.change(pk, role=role)
        if changed:
            AuditEntry.note(
                request.user, "change role", person, old=Role(person.role).label, new=role.label
            )
            if role != Role.ADMIN:
                _end_links(Q(created_by=person))
    if changed:
        events.publish_person_change(pk)
        messages.success(request, f"{person} is now {role.with_article}.")
    else:
        messages.error(request, LAST_ADMIN.format(person))
    return redirect("settings")


@require_POST
@allow(Permission.ADMINISTER)
def person_active(request: PersonRequest, pk: int) -> HttpResponse:
    """Disable a person, or let a disabled one in again, as the form says."""
    person = get_object_or_404(User, pk=pk)
    enables = request.POST.get("active") == "yes"
    with transaction.atomic():
        changed = User.objects.change(pk, is_active=enables)
        if changed:
            AuditEntry.note(request.user, "enable person" if enables else "disable person", person)
            if not enables:
                _end_links(Q(person=person) | Q(created_by=person))
    if changed:
        events.publish_person_change(pk)
        done = "may log in again" if enables else "is disabled; their sessions have ended"
        messages.success(request, f"{person} {done}.")
    else:
        messages.error(request, LAST_ADMIN.format(person))
    return redirect("settings")


def _end_links(which: Q) -> None:
    """Else somebody who is shown out keeps a link to come back by."""
    Invite.objects.filter(which).end()


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
