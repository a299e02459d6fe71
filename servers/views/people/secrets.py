"""The admins' buttons for secrets: add, replace, delete. Values go in and never come out."""

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from servers.forms.people import SecretForm, SecretValueForm
from servers.models import AuditEntry, Permission, Secret
from servers.views.access import PersonRequest, allow
from servers.views.people.settings import page, secret_uses


@sensitive_post_parameters("value")
@require_POST
@allow(Permission.ADMINISTER)
def secret_add(request: PersonRequest) -> HttpResponse:
    form = SecretForm(request.POST)
    if not form.is_valid():
        return page(request, secret_form=form)
    me = request.user
    with transaction.atomic():
        secret = Secret.seal(form.cleaned_data["name"], form.cleaned_data["value"], me)
        AuditEntry.note(me, "add secret", secret)
    then = " Choose it below for each box that is to use it." if secret.name == "HF_TOKEN" else ""
    messages.success(request, f"{secret} is kept, encrypted.{then}")
    return redirect("settings")


@sensitive_post_parameters("value")
@require_POST
@allow(Permission.ADMINISTER)
def secret_replace(request: PersonRequest, pk: int) -> HttpResponse:
    secret = get_object_or_404(Secret, pk=pk)
    form = SecretValueForm(request.POST)
    if not form.is_valid():
        return page(request, value_form=(secret, form))
    me = request.user
    with transaction.atomic():
        secret.replace(form.cleaned_data["value"], me)
        AuditEntry.note(me, "replace secret", secret)
    messages.success(request, f"{secret} is replaced. Servers get it at their next start.")
    return redirect("settings")


@require_POST
@allow(Permission.ADMINISTER)
def secret_delete(request: PersonRequest, pk: int) -> HttpResponse:
    secret = get_object_or_404(Secret, pk=pk)
    if uses := secret_uses().get(pk):
        messages.error(
            request,
            f"{secret} is used by {', '.join(uses)}, which would not start without it, so it was "
            "not deleted. Take it out there first, or replace its value.",
        )
        return redirect("settings")
    with transaction.atomic():
        secret.delete()
        AuditEntry.note(request.user, "delete secret", secret)
    messages.success(request, f"{secret} is deleted.")
    return redirect("settings")
