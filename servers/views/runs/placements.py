"""Boxes on which a profile may be started, with parameter values."""

from dataclasses import asdict
from typing import cast

from django.core.exceptions import BadRequest, PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.text import slugify
from django.views.decorators.http import require_POST

from servers import events
from servers.forms.profile_values import opens_the_box
from servers.launch.engines import parameters
from servers.lifecycle.weights import checkpoints
from servers.models import AuditEntry, Box, Permission, Profile, Server, User
from servers.views.access import allow
from servers.views.profiles.profiles import find


@require_POST
@allow(Permission.EDIT)
def profile_place(request: HttpRequest, slug: str) -> HttpResponse:
    """Make the profile startable on one more box, or on the same one with other values."""
    found = find(request, slug)
    box = get_object_or_404(Box, slug=request.POST.get("box", ""))
    _check_may(request, found)
    values = _values(request, found)
    if values or not found.servers.filter(box=box, watches={}).exists():
        said = next(iter(values.values()), "").rstrip("/").rpartition("/")[2] or box.slug
        made = Server.objects.create(
            profile=found, box=box, slug=_free_slug(f"{found.slug}-{said}"), values=values
        )
        AuditEntry.note(cast(User, request.user), "place", made, **values)
        checkpoints.look_soon(found)
        events.publish_change("servers")
    return redirect("profile", slug=found.slug)


@require_POST
@allow(Permission.EDIT)
def server_values(request: HttpRequest, slug: str) -> HttpResponse:
    """Give a server its own values for the profile's parameters, from its next start on."""
    server = get_object_or_404(Server.objects.select_related("profile"), slug=slug)
    found = find(request, server.profile.slug)
    _check_may(request, found)
    values = _values(request, found)
    if values != server.values:
        Server.objects.filter(pk=server.pk).update(values=values)
        AuditEntry.note(cast(User, request.user), "set parameters", server, **values)
        events.publish_change("server", server.pk)
    return redirect("profile", slug=found.slug)


def _check_may(request: HttpRequest, found: Profile) -> None:
    """What an admin's privileges are used for is an admin's to say: values are part of that."""
    if opens_the_box(asdict(found.launch)) and not cast(User, request.user).may_administer:
        raise PermissionDenied(
            f"{found} has settings that only an admin may give a container, such as privileged or "
            "devices. Only an admin may place it on another box, or change a server’s values."
        )


def _values(request: HttpRequest, found: Profile) -> dict[str, str]:
    """Those that differ from the profile's own. Raises BadRequest."""
    values: dict[str, str] = {}
    for name, usual in found.launch.parameters.items():
        value = request.POST.get(f"value-{name}", "").strip()
        try:
            parameters.check(name, value)
        except ValueError as error:
            raise BadRequest(str(error)) from error
        if value not in ("", usual):
            values[name] = value
    return values


def _free_slug(wanted: str) -> str:
    base = slugify(wanted)[:76]
    taken = set(Server.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    names = [base, *(f"{base}-{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)
