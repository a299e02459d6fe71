"""Registry credentials: the admins' list, form and buttons. Passwords go in and never come out."""

from typing import cast

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers.contexts.images import inventory as image_context
from servers.forms.image import RegistryCredentialForm
from servers.lifecycle.images import credentials as verbs
from servers.models import AuditEntry, Permission, RegistryCredential, User
from servers.views.access import allow

DONE = 204


@require_GET
@allow(Permission.ADMINISTER)
def logins(request: HttpRequest) -> HttpResponse:
    return _page(request, RegistryCredentialForm())


@sensitive_post_parameters("password")
@require_POST
@allow(Permission.ADMINISTER)
def login_add(request: HttpRequest) -> HttpResponse:
    form = RegistryCredentialForm(request.POST)
    if not form.is_valid():
        return _page(request, form)
    me = cast(User, request.user)
    form.instance.created_by = me
    with transaction.atomic():
        login = form.save()
        AuditEntry.note(me, "add registry credential", login, name=login.username)
    messages.success(
        request, f"The credential of {login} is saved. Press Test to see whether it works."
    )
    return redirect("registry_logins")


@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def login_edit(request: HttpRequest, pk: int) -> HttpResponse:
    login = get_object_or_404(RegistryCredential, pk=pk)
    name = login.registry
    form = RegistryCredentialForm(request.POST or None, instance=login)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            form.save()
            # Of a password the trail says that it was changed, and not to what.
            changed = ", ".join(form.changed_data)
            AuditEntry.note(
                cast(User, request.user), "change registry credential", name, changed=changed
            )
        messages.success(request, f"The credential of {form.instance} is changed.")
        return redirect("registry_logins")
    return render(request, "images/login.html", {"form": form, "pk": pk, "name": name})


@require_POST
@allow(Permission.ADMINISTER)
def login_delete(request: HttpRequest, pk: int) -> HttpResponse:
    login = get_object_or_404(RegistryCredential, pk=pk)
    with transaction.atomic():
        AuditEntry.note(cast(User, request.user), "delete registry credential", login)
        login.delete()
    messages.success(
        request, f"The credential of {login} is deleted. Pulls from there go on without it."
    )
    return redirect("registry_logins")


@require_POST
@allow(Permission.ADMINISTER)
def login_test(request: HttpRequest, pk: int) -> HttpResponse:
    verbs.ask_for_test(get_object_or_404(RegistryCredential, pk=pk), by=cast(User, request.user))
    return HttpResponse(status=DONE)


def _page(request: HttpRequest, form: RegistryCredentialForm) -> HttpResponse:
    context = {
        "logins": RegistryCredential.objects.select_related("created_by", "tested_on"),
        "form": form,
        "jobs_mark": image_context.jobs_mark(),
    }
    return render(request, "images/logins.html", context)
