"""Settings: people, secrets and boxes. Admins only."""

from typing import cast

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_POST

from servers.forms.people import BoxForm, InviteForm, SecretForm
from servers.models import Box, Entry, Invite, Profile, Role, Secret, User
from servers.views.access import allow

LAST_ADMIN = "This is the last active admin: make somebody else an admin first."


@never_cache
@require_GET
@allow(Role.ADMIN)
def settings(request: HttpRequest) -> HttpResponse:
    return _page(request)


@require_POST
@allow(Role.ADMIN)
def person_invite(request: HttpRequest) -> HttpResponse:
    form = InviteForm(request.POST)
    if not form.is_valid():
        return _page(request)
    role = Role(form.cleaned_data["role"])
    _invite, token = Invite.make(role=role, by=_me(request))
    Entry.note(_me(request), "invite", role.label)
    return _page(request, link=_link(request, token), link_for=f"a new {role.label}")


@require_POST
@allow(Role.ADMIN)
def person_reset(request: HttpRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    _invite, token = Invite.make(role=Role(person.role), by=_me(request), person=person)
    Entry.note(_me(request), "reset link", person)
    return _page(request, link=_link(request, token), link_for=f"{person}'s new password")


@require_POST
@allow(Role.ADMIN)
def person_role(request: HttpRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    form = InviteForm(request.POST)
    if form.is_valid():
        role = Role(form.cleaned_data["role"])
        if role == Role.ADMIN:
            changed = User.objects.filter(pk=pk).update(role=role) == 1
        elif person.role == Role.ADMIN and person.is_active:
            changed = User.objects.take_from_admins(person, role=role)
        else:
            changed = User.objects.filter(pk=pk).update(role=role) == 1
        if changed:
            Entry.note(_me(request), "change role", person, role=role.label)
        else:
            messages.error(request, LAST_ADMIN)
    return redirect("settings")


@require_POST
@allow(Role.ADMIN)
def person_active(request: HttpRequest, pk: int) -> HttpResponse:
    """Disable a person, or let a disabled one in again."""
    person = get_object_or_404(User, pk=pk)
    if not person.is_active:
        User.objects.filter(pk=pk).update(is_active=True)
        Entry.note(_me(request), "enable person", person)
    elif person.role != Role.ADMIN:
        User.objects.filter(pk=pk).update(is_active=False)
        Entry.note(_me(request), "disable person", person)
    elif User.objects.take_from_admins(person, is_active=False):
        Entry.note(_me(request), "disable person", person)
    else:
        messages.error(request, LAST_ADMIN)
    return redirect("settings")


@sensitive_post_parameters("value")
@require_POST
@allow(Role.ADMIN)
def secret_add(request: HttpRequest) -> HttpResponse:
    form = SecretForm(request.POST)
    if not form.is_valid():
        return _page(request, secret_form=form)
    secret = Secret.seal(form.cleaned_data["name"], form.cleaned_data["value"], _me(request))
    Entry.note(_me(request), "add secret", secret)
    messages.success(request, f"{secret} is kept, encrypted.")
    return redirect("settings")


@require_POST
@allow(Role.ADMIN)
def secret_delete(request: HttpRequest, pk: int) -> HttpResponse:
    secret = get_object_or_404(Secret, pk=pk)
    secret.delete()
    Entry.note(_me(request), "delete secret", secret)
    return redirect("settings")


@require_POST
@allow(Role.ADMIN)
def box_settings(request: HttpRequest, slug: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    form = BoxForm(request.POST, instance=box, prefix=slug)
    if not form.is_valid():
        return _page(request, box_form=form)
    # Only these: the watcher writes the others at the same time.
    box.save(update_fields=list(form.Meta.fields))
    Entry.note(_me(request), "change box", box)
    messages.success(request, f"{box} is changed; it counts from the next start.")
    return redirect("settings")


def _page(
    request: HttpRequest,
    *,
    link: str = "",
    link_for: str = "",
    secret_form: SecretForm | None = None,
    box_form: BoxForm | None = None,
) -> HttpResponse:
    forms = [
        box_form
        if box_form is not None and box_form.instance.pk == box.pk
        else BoxForm(instance=box, prefix=box.slug)
        for box in Box.objects.all()
    ]
    return render(
        request,
        "people/settings.html",
        {
            "people": User.objects.order_by("-is_active", "-role", "username"),
            "roles": Role.choices,
            "invite_form": InviteForm(),
            "link": link,
            "link_for": link_for,
            "secrets": _secrets_with_use(),
            "secret_form": secret_form or SecretForm(),
            "box_forms": forms,
        },
    )


def _secrets_with_use() -> list[tuple[Secret, list[str]]]:
    used: dict[int, list[str]] = {}
    for profile in Profile.objects.select_related("current"):
        for pk in profile.launch.secret_env.values():
            used.setdefault(pk, []).append(str(profile))
    for box in Box.objects.exclude(hf_token=None):
        used.setdefault(box.hf_token_id or 0, []).append(box.slug)
    return [(secret, used.get(secret.pk, [])) for secret in Secret.objects.order_by("name", "pk")]


def _link(request: HttpRequest, token: str) -> str:
    return request.build_absolute_uri(reverse("join", args=[token]))


def _me(request: HttpRequest) -> User:
    return cast(User, request.user)
