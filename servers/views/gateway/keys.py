"""The page of keys: made, shown once, revoked."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from servers.forms.keys import KeyForm
from servers.models import AuditEntry, Key, Permission, Role, User
from servers.views.access import PersonRequest, allow
from servers.views.gateway.gateway import use_from
from servers.views.responses import render_question, respond_text


@require_http_methods(["GET", "POST"])
@allow(Permission.ACCOUNT)
def keys(request: PersonRequest) -> HttpResponse:
    if request.method == "GET":
        return _page(request)
    is_in_place = "HX-Request" in request.headers
    form = KeyForm(request.POST, person=request.user)
    if not form.is_valid():
        if is_in_place:
            return respond_text(
                " ".join(str(each) for found in form.errors.values() for each in found)
            )
        return render_question(request, "New key", "people/_key_form.html", {"form": form})
    made, token = _make(request.user, form.cleaned_data)
    shown = {
        "made": made,
        "token": token,
        "has_own_authority": settings.OWN_TLS is not None,
        "site": request.build_absolute_uri("/").rstrip("/"),
    }
    if is_in_place:
        return render(request, "people/_new_key.html", shown)
    used = use_from(request) if made.may(Permission.CHAT) else {}
    return _page(request, {**shown, **used})


def _make(person: User, said: dict[str, Any]) -> tuple[Key, str]:
    with transaction.atomic():
        made, token = Key.make(
            person,
            said["name"],
            Role(said["role"]),
            expires_at=said["expires_at"],
            only_asks=said.get("only_asks", False),
            models_allowed=said["models_allowed"],
            requests_per_minute=said["requests_per_minute"],
        )
        AuditEntry.note(person, "make key", made, may=made.scope)
    return made, token


def _page(request: PersonRequest, more: dict[str, Any] | None = None) -> HttpResponse:
    person = request.user
    found = Key.objects.select_related("person")
    shown = list(found if person.may_administer else found.filter(person=person))
    # Those that open nothing any more come last.
    shown.sort(key=lambda key: key.is_over)
    others = {key.person_id for key in shown} - {person.pk}
    context = {"keys": shown, "has_people": bool(others), **(more or {})}
    return render(request, "people/keys.html", context)


@require_GET
@allow(Permission.ACCOUNT)
def key_new(request: PersonRequest) -> HttpResponse:
    """The form of a key; `?here`: the page that asks shows the new one itself."""
    form = KeyForm(person=request.user)
    context = {"form": form, "is_in_place": "here" in request.GET}
    return render_question(request, "New key", "people/_key_form.html", context)


@require_http_methods(["GET", "POST"])
@allow(Permission.ACCOUNT)
def key_revoke(request: PersonRequest, pk: int) -> HttpResponse:
    """One's own, and as an admin anybody's."""
    person = request.user
    found = Key.objects.all() if person.may_administer else Key.objects.filter(person=person)
    key = get_object_or_404(found.select_related("person"), pk=pk)
    if request.method == "GET":
        return render_question(
            request, f"Revoke {key.name}?", "people/_key_revoke.html", {"key": key}
        )
    if Key.objects.revoke(key):
        AuditEntry.note(person, "revoke key", key)
        messages.success(request, f"{key.name} is revoked.")
    else:
        messages.info(request, f"{key.name} was revoked already.")
    return redirect("keys")
