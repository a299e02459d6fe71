"""The settings page: one's own account; for admins people, secrets and boxes too."""

from typing import Any

from django.conf import settings as configured
from django.contrib import messages
from django.db import transaction
from django.db.models import Count, Sum
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from servers import tasks
from servers.forms.people import BoxForm, RoleForm, SecretForm, SecretValueForm
from servers.launch.engines.placement import resolve
from servers.models import (
    AuditEntry,
    Box,
    EnvironmentGroup,
    Invite,
    Permission,
    Profile,
    Role,
    Run,
    RunLog,
    Secret,
    User,
)
from servers.views.access import PersonRequest, allow
from servers.views.people import encryption


@require_GET
@allow(Permission.ACCOUNT)
def settings(request: PersonRequest) -> HttpResponse:
    return page(request)


@require_POST
@allow(Permission.ADMINISTER)
def box_settings(request: PersonRequest, slug: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    form = BoxForm(request.POST, instance=box, prefix=box.slug)
    if form.is_valid() and "hf_cache" in form.changed_data and form.instance.hf_cache:
        path = resolve(form.instance.hf_cache, home=form.instance.home)
        if refusal := tasks.mount_refusal(box, path):
            form.add_error("hf_cache", refusal)
    if not form.is_valid():
        return page(request, box_form=form)
    with transaction.atomic():
        box = form.save(commit=False)
        # Only these: the watcher writes the others at the same time.
        box.save(update_fields=list(BoxForm.Meta.fields))
        changed = {name: str(getattr(box, name) or "none") for name in form.changed_data}
        AuditEntry.note(request.user, "change box", box, **changed)
    messages.success(request, f"{box} is changed. It counts from each server's next start.")
    return redirect("settings")


def page(
    request: PersonRequest,
    *,
    link: tuple[Invite, str] | None = None,
    secret_form: SecretForm | None = None,
    value_form: tuple[Secret, SecretValueForm] | None = None,
    box_form: BoxForm | None = None,
) -> HttpResponse:
    """The page; with a link that was just made, or with forms that say what is wrong in them."""
    if not request.user.may(Permission.ADMINISTER):
        return render(request, "people/settings.html", {"authority": encryption.show_authority()})
    wrong_box = box_form.instance.pk if box_form else None
    uses = secret_uses()
    boxes = [
        box_form if box.pk == wrong_box else BoxForm(instance=box, prefix=box.slug, uses=uses)
        for box in Box.objects.all()
    ]
    invites = Invite.objects.open().select_related("person", "created_by").order_by("expires_at")
    return render(
        request,
        "people/settings.html",
        {
            "people": User.objects.order_by("-is_active", "-role", "username"),
            "roles": Role.choices,
            "invites": invites,
            "invite_form": RoleForm(),
            "new_link": link and {"is_for": link[0], "address": _address(request, link[1])},
            "secrets": _secrets(uses),
            "secret_form": secret_form or SecretForm(),
            "value_form": value_form and {"secret": value_form[0], "form": value_form[1]},
            "box_forms": boxes,
            "logs": _logs(),
            "authority": encryption.show_authority(),
        },
    )


def _logs() -> dict[str, Any]:
    """How much is kept of logs, and the bounds that the watcher holds."""
    kept = RunLog.objects.filter(size__gt=0)
    found = kept.aggregate(size=Sum("size", default=0), runs=Count("pk"))
    return {
        "size": _amount(found["size"]),
        "runs": found["runs"],
        "head": _amount(configured.LOG_HEAD),
        "tail": configured.LOG_TAIL and _amount(configured.LOG_TAIL),
        "days": configured.LOG_DAYS,
        "total": configured.LOG_TOTAL and _amount(configured.LOG_TOTAL),
    }


def _amount(size: int) -> str:
    return f"{size / 2**20:.3g} MiB" if size < 2**30 else f"{size / 2**30:.3g} GiB"


def _secrets(uses: dict[int, list[str]]) -> list[tuple[Secret, list[str]]]:
    secrets = Secret.objects.select_related("created_by").order_by("name", "pk")
    return [(secret, uses.get(secret.pk, [])) for secret in secrets]


def secret_uses() -> dict[int, list[str]]:
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


def _address(request: PersonRequest, token: str) -> str:
    return request.build_absolute_uri(reverse("join", args=[token]))
