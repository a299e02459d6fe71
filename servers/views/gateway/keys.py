"""A person's keys: made, shown once, revoked."""

from typing import cast

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from servers.forms.keys import KeyForm
from servers.models import AuditEntry, Key, Permission, Role, User
from servers.views.access import allow
from servers.views.gateway.gateway import use_from


@require_http_methods(["GET", "POST"])
@allow(Permission.ACCOUNT)
def keys(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    form = KeyForm(request.POST or None, person=person)
    made, token = None, ""
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            made, token = Key.make(
                person,
                form.cleaned_data["name"],
                Role(form.cleaned_data["role"]),
                expires_at=form.cleaned_data["expires_at"],
                only_asks=form.cleaned_data.get("only_asks", False),
                models_allowed=form.cleaned_data["models_allowed"],
                requests_per_minute=form.cleaned_data["requests_per_minute"],
            )
            AuditEntry.note(person, "make key", made, may=made.scope)
        form = KeyForm(person=person)
    found = Key.objects.select_related("person")
    shown = found if person.may_administer else found.filter(person=person)
    return render(
        request,
        "people/keys.html",
        {
            "form": form,
            "made": made,
            "token": token,
            "has_own_authority": settings.OWN_TLS is not None,
            "site": request.build_absolute_uri("/").rstrip("/"),
            **(use_from(request) if made and made.may(Permission.CHAT) else {}),
            "mine": [key for key in shown if key.person_id == person.pk],
            "others": [key for key in shown if key.person_id != person.pk],
        },
    )


@require_POST
@allow(Permission.ACCOUNT)
def key_revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """One's own, and as an admin anybody's."""
    person = cast(User, request.user)
    found = Key.objects.all() if person.may_administer else Key.objects.filter(person=person)
    key = get_object_or_404(found, pk=pk)
    if Key.objects.revoke(key):
        AuditEntry.note(person, "revoke key", key)
        messages.success(request, f"{key.name} is revoked: nothing can be done with it any more.")
    else:
        messages.info(request, f"{key.name} was revoked already.")
    return redirect("keys")
