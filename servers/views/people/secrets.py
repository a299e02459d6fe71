"""The admins' page of secrets: add, replace, delete. Values go in and never come out."""

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers.forms.people import SecretForm, SecretValueForm
from servers.models import AuditEntry, Box, EnvironmentGroup, Permission, Profile, Run, Secret
from servers.views.access import PersonRequest, allow
from servers.views.responses import render_form


@require_GET
@allow(Permission.ADMINISTER)
def list_secrets(request: PersonRequest) -> HttpResponse:
    uses = find_uses()
    found = Secret.objects.select_related("created_by").order_by("name", "pk")
    secrets = [(secret, uses.get(secret.pk, [])) for secret in found]
    return render(request, "people/settings/secrets.html", {"secrets": secrets})


@sensitive_post_parameters("value")
@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def secret_add(request: PersonRequest) -> HttpResponse:
    form = SecretForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        me = request.user
        with transaction.atomic():
            secret = Secret.seal(form.cleaned_data["name"], form.cleaned_data["value"], me)
            AuditEntry.note(me, "add secret", secret)
        is_token = secret.name == "HF_TOKEN"
        then = " Choose it on the page of each box that is to use it." if is_token else ""
        messages.success(request, f"{secret} is kept, encrypted.{then}")
        return redirect("settings_secrets")
    return render_form(request, "people/settings/secret_form.html", {"form": form})


@sensitive_post_parameters("value")
@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def secret_replace(request: PersonRequest, pk: int) -> HttpResponse:
    secret = get_object_or_404(Secret, pk=pk)
    form = SecretValueForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        me = request.user
        with transaction.atomic():
            secret.replace(form.cleaned_data["value"], me)
            AuditEntry.note(me, "replace secret", secret)
        messages.success(request, f"{secret} is replaced. Servers get it at their next start.")
        return redirect("settings_secrets")
    context = {"form": form, "secret": secret}
    return render_form(request, "people/settings/secret_form.html", context)


@require_POST
@allow(Permission.ADMINISTER)
def secret_delete(request: PersonRequest, pk: int) -> HttpResponse:
    secret = get_object_or_404(Secret, pk=pk)
    if uses := find_uses().get(pk):
        messages.error(
            request,
            f"{secret} is used by {', '.join(uses)}, which would not start without it, so it was "
            "not deleted. Take it out there first, or replace its value.",
        )
        return redirect("settings_secrets")
    with transaction.atomic():
        secret.delete()
        AuditEntry.note(request.user, "delete secret", secret)
    messages.success(request, f"{secret} is deleted.")
    return redirect("settings_secrets")


def find_uses() -> dict[int, list[str]]:
    """By a secret's key, the profiles, environment groups, boxes and running servers that need it."""
    uses: dict[int, list[str]] = {}
    for profile in Profile.objects.active().exclude(current=None).select_related("current"):
        for pk in profile.launch.secret_env.values():
            uses.setdefault(pk, []).append(str(profile))
    for group in EnvironmentGroup.objects.exclude(current=None).select_related("current"):
        for pk in group.variables.secret_env.values():
            uses.setdefault(pk, []).append(f"the environment group {group}")
    for box in Box.objects.all():
        if box.hf_token_id is not None:
            uses.setdefault(box.hf_token_id, []).append(str(box))
    # Of an earlier version, or of a profile that was put away.
    for run in Run.objects.active().select_related("server", "version__profile"):
        for pk in run.version.launch.secret_env.values():
            if str(run.version.profile) not in uses.setdefault(pk, []):
                uses[pk].append(f"{run.server} as it runs now")
    return uses
