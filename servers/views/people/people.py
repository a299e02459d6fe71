"""Admins' pages of people: invite, role, disable, new password."""

from django.contrib import messages
from django.db import transaction
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import events
from servers.forms.people import RoleForm
from servers.models import AuditEntry, Invite, Permission, Role, User
from servers.views.access import PersonRequest, allow
from servers.views.responses import render_form

LAST_ADMIN = (
    "{} is the last active admin, so nothing was changed. Make somebody else an admin first."
)


NO_ROLE = "There is no such role. Choose one of the list."


@require_GET
@allow(Permission.ADMINISTER)
def list_people(request: PersonRequest) -> HttpResponse:
    return _page(request)


def _page(request: PersonRequest, *, link: tuple[Invite, str] | None = None) -> HttpResponse:
    """With a link that was just made: it is shown this once."""
    invites = Invite.objects.open().select_related("person", "created_by").order_by("expires_at")
    context = {
        "people": User.objects.order_by("-is_active", "-role", "username"),
        "roles": Role.choices,
        "invites": invites,
        "new_link": link and {"is_for": link[0], "address": _address(request, link[1])},
    }
    return render(request, "people/settings/people.html", context)


def _address(request: PersonRequest, token: str) -> str:
    return request.build_absolute_uri(reverse("join", args=[token]))


@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def person_invite(request: PersonRequest) -> HttpResponse:
    form = RoleForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            made = Invite.make(role=form.cleaned_data["role"], by=request.user)
            AuditEntry.note(request.user, "invite", made[0])
        return _page(request, link=made)
    return render_form(request, "people/settings/invite.html", {"form": form})


@require_POST
@allow(Permission.ADMINISTER)
def invite_end(request: PersonRequest, pk: int) -> HttpResponse:
    invite = get_object_or_404(Invite, pk=pk)
    if Invite.objects.filter(pk=pk).end():
        AuditEntry.note(request.user, "end invite", invite)
        messages.success(request, f"The link for {invite} has ended.")
    else:
        messages.info(request, f"The link for {invite} was used or over already.")
    return redirect("settings_people")


@require_POST
@allow(Permission.ADMINISTER)
def person_reset(request: PersonRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    if not person.is_active:
        messages.error(request, f"{person} is disabled. Enable the account first.")
        return redirect("settings_people")
    with transaction.atomic():
        made = Invite.make(role=Role(person.role), by=request.user, person=person)
        AuditEntry.note(request.user, "reset link", person)
    return _page(request, link=made)


@require_POST
@allow(Permission.ADMINISTER)
def person_role(request: PersonRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, NO_ROLE)
        return redirect("settings_people")
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
    return redirect("settings_people")


@require_POST
@allow(Permission.ADMINISTER)
def person_active(request: PersonRequest, pk: int) -> HttpResponse:
    """Disable a person, or let a disabled one in again, as the form says."""
    person = get_object_or_404(User, pk=pk)
    enables = "yes" in (request.POST.get("active"), request.GET.get("active"))
    with transaction.atomic():
        changed = User.objects.change(pk, is_active=enables)
        if changed:
            AuditEntry.note(request.user, "enable person" if enables else "disable person", person)
            if not enables:
                _end_links(Q(person=person) | Q(created_by=person))
    if changed:
        events.publish_person_change(pk)
        done = "may log in again" if enables else "is disabled; their sessions have ended"
        undo = "" if enables else reverse("person_active", query={"active": "yes"}, args=[pk])
        messages.success(request, f"{person} {done}.", extra_tags=undo)
    else:
        messages.error(request, LAST_ADMIN.format(person))
    return redirect("settings_people")


def _end_links(which: Q) -> None:
    """Else somebody who is shown out keeps a link to come back by."""
    Invite.objects.filter(which).end()
