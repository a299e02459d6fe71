"""Pages of servers: the dashboard, the list, reboots, placements."""

from dataclasses import asdict

from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.text import slugify
from django.views.decorators.http import require_GET, require_POST

from servers import events
from servers.contexts import pages
from servers.contexts.alerts import needs
from servers.contexts.people import recent
from servers.contexts.runs import reboots
from servers.forms.profile_values import opens_the_box
from servers.launch.engines import parameters
from servers.lifecycle.runs.ownership import require_managed
from servers.lifecycle.weights import checkpoints
from servers.models import (
    AuditEntry,
    Box,
    Key,
    Permission,
    Profile,
    Reboot,
    Server,
)
from servers.state import box_samples
from servers.views.access import PersonRequest, allow
from servers.views.people import encryption
from servers.views.profiles.profiles import find
from servers.views.responses import respond_done


@require_GET
@allow(Permission.OPERATE)
def server_stop_ask(request: PersonRequest, slug: str) -> HttpResponse:
    """What a stop or restart would take from whom, and the buttons that do it."""
    found = require_managed(get_object_or_404(Server.objects.with_details(), slug=slug))
    return render(
        request,
        "runs/_stop.html",
        {
            "server": found,
            "run": found.run,
            "person": request.user,
            "restarts": request.GET.get("then") == "restart",
        },
    )


@require_GET
@allow(Permission.ACCOUNT)
def dashboard(request: PersonRequest) -> HttpResponse:
    if not request.user.may_view:
        return redirect("chat")
    boxes = list(Box.objects.all())
    samples = {box.slug: box_samples.newest(box.slug) for box in boxes}
    servers = list(Server.objects.for_dashboard().for_person(request.user))
    return render(
        request,
        "dashboard.html",
        {
            "person": request.user,
            "servers": servers,
            "panels": pages.panels(boxes, samples, is_folded=len(boxes) > pages.UNFOLDED),
            "notices": needs.list_for(request.user, needs.attention(boxes, samples)),
            "ending_keys": list(Key.objects.ending_soon(request.user)),
            "recent": recent.list_recent(request.user),
            "reboots": reboots.lines(),
            "is_open_unencrypted": settings.IS_OPEN_UNENCRYPTED,
            "certificate_days": encryption.days_left(),
        },
    )


@require_GET
@allow(Permission.VIEW)
def list_servers(request: PersonRequest) -> HttpResponse:
    servers = list(Server.objects.for_dashboard().for_person(request.user))
    return render(request, "runs/list.html", {"person": request.user, "servers": servers})


@require_POST
@allow(Permission.VIEW)
def server_favourite(request: PersonRequest, slug: str) -> HttpResponse:
    found, person = get_object_or_404(Server, slug=slug), request.user
    if request.POST.get("is") == "yes":
        found.fans.add(person)
    else:
        found.fans.remove(person)
    events.publish_person_change(person.pk)
    return respond_done()


@require_POST
@allow(Permission.OPERATE)
def box_boot_dismiss(request: PersonRequest, slug: str, pk: int) -> HttpResponse:
    """For everybody: the audit log says who did."""
    boot = get_object_or_404(Reboot, pk=pk, box__slug=slug)
    person = request.user
    with transaction.atomic():
        if boot.dismiss(person):
            AuditEntry.note(person, "put away restart", boot.box)
    events.publish_change("box", boot.box_id)
    return respond_done()


@require_POST
@allow(Permission.EDIT)
def profile_place(request: PersonRequest, slug: str) -> HttpResponse:
    """Make the profile startable on one more box, or on the same one with other values."""
    found = find(request, slug)
    box = get_object_or_404(Box, slug=request.POST.get("box", ""))
    _check_may(request, found)
    values = _values(request, found)
    if values or not found.servers.filter_managed().filter(box=box).exists():
        said = next(iter(values.values()), "").rstrip("/").rpartition("/")[2] or box.slug
        made = Server.objects.create(
            profile=found, box=box, slug=_free_slug(f"{found.slug}-{said}"), values=values
        )
        AuditEntry.note(request.user, "place", made, **values)
        checkpoints.look_soon(found)
        events.publish_change("servers")
    return redirect("profile", slug=found.slug)


@require_POST
@allow(Permission.EDIT)
def server_values(request: PersonRequest, slug: str) -> HttpResponse:
    """Give a server its own values for the profile's parameters, from its next start on."""
    server = get_object_or_404(Server.objects.select_related("profile"), slug=slug)
    found = find(request, server.profile.slug)
    _check_may(request, found)
    values = _values(request, found)
    if values != server.values:
        Server.objects.filter(pk=server.pk).update(values=values)
        AuditEntry.note(request.user, "set parameters", server, **values)
        events.publish_change("server", server.pk)
    return redirect("profile", slug=found.slug)


def _check_may(request: PersonRequest, found: Profile) -> None:
    """What an admin's privileges are used for is an admin's to say: values are part of that."""
    if opens_the_box(asdict(found.launch)) and not request.user.may_administer:
        raise PermissionDenied(
            f"{found} has settings that only an admin may give a container, such as privileged or "
            "devices. Only an admin may place it on another box, or change a server’s values."
        )


def _values(request: PersonRequest, found: Profile) -> dict[str, str]:
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
