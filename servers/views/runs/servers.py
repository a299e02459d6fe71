"""Pages of servers and runs: the dashboard, the list, tabs of one server, logs as files, placements."""

import zlib
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import transaction
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import aget_object_or_404, get_object_or_404, redirect, render
from django.urls import reverse

from servers import events, tasks
from servers.contexts import alerts, pages, server_page
from servers.contexts import dashboard as dashboard_context
from servers.forms.profile import opens_the_box
from servers.judge.logs import parsing
from servers.launch import numbers
from servers.launch.engines.launch import check_parameter
from servers.lifecycle.runs import box_choice
from servers.lifecycle.runs.ownership import require_managed
from servers.lifecycle.weights import inventory
from servers.models import (
    AuditEntry,
    Box,
    Key,
    LogChunk,
    Permission,
    Profile,
    Reboot,
    Run,
    Server,
)
from servers.models.logs import MOST_CHUNKS
from servers.models.runs.run import PARTS
from servers.state.samples import newest
from servers.views.access import PersonRequest, get, post
from servers.views.people.settings import days_left
from servers.views.profiles.profiles import find, mark_favourite
from servers.views.responses import respond_done, send_file
from servers.views.runs import starts


@get("servers/<slug:slug>/stop/ask/", Permission.OPERATE)
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


@get("", Permission.ACCOUNT)
def dashboard(request: PersonRequest) -> HttpResponse:
    if not request.user.may_view:
        return redirect("chat")
    boxes = list(Box.objects.all())
    samples = {box.slug: newest(box.slug) for box in boxes}
    servers = list(Server.objects.for_dashboard().for_person(request.user))
    return render(
        request,
        "dashboard.html",
        {
            "person": request.user,
            "servers": servers,
            "panels": pages.panels(boxes, samples, is_folded=len(boxes) > pages.UNFOLDED),
            "notices": alerts.list_for(request.user, alerts.attention(boxes, samples)),
            "ending_keys": list(Key.objects.ending_soon(request.user)),
            "recent": dashboard_context.list_recent(request.user),
            "reboots": dashboard_context.list_reboots(),
            "is_open_unencrypted": settings.IS_OPEN_UNENCRYPTED,
            "certificate_days": days_left(),
        },
    )


@get("servers/", Permission.VIEW, name="servers")
def list_servers(request: PersonRequest) -> HttpResponse:
    servers = list(Server.objects.for_dashboard().for_person(request.user))
    return render(request, "runs/list.html", {"person": request.user, "servers": servers})


@post("servers/<slug:slug>/favourite/", Permission.VIEW)
def server_favourite(request: PersonRequest, slug: str) -> HttpResponse:
    mark_favourite(request, get_object_or_404(Server, slug=slug))
    events.publish_person_change(request.user.pk)
    return respond_done()


@post("boxes/<slug:slug>/restarts/<int:pk>/put-away/", Permission.OPERATE)
def box_boot_dismiss(request: PersonRequest, slug: str, pk: int) -> HttpResponse:
    """For everybody: the audit log says who did."""
    boot = get_object_or_404(Reboot, pk=pk, box__slug=slug)
    person = request.user
    with transaction.atomic():
        if boot.dismiss(person):
            AuditEntry.note(person, "put away restart", boot.box)
    events.publish_change("box", boot.box_id)
    return respond_done()


@post("profiles/<slug:slug>/place/", Permission.EDIT)
def profile_place(request: PersonRequest, slug: str) -> HttpResponse:
    """Make the profile startable on one more box, or on the same one with other values."""
    found = find(request, slug)
    box = get_object_or_404(Box, slug=request.POST.get("box", ""))
    _check_may(request, found)
    values = _values(request, found)
    if values or not found.servers.filter_managed().filter(box=box).exists():
        said = next(iter(values.values()), "").rstrip("/").rpartition("/")[2] or box.slug
        made = Server.objects.create(
            profile=found,
            box=box,
            slug=box_choice.find_free_slug(f"{found.slug}-{said}"),
            values=values,
        )
        AuditEntry.note(request.user, "place", made, **values)
        inventory.look_soon(found)
        events.publish_change("servers")
    return redirect("profile", slug=found.slug)


@post("servers/<slug:slug>/values/", Permission.EDIT)
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
            check_parameter(name, value)
        except ValueError as error:
            raise BadRequest(str(error)) from error
        if value not in ("", usual):
            values[name] = value
    return values


@post("profiles/<slug:slug>/start/", Permission.OPERATE, name="profile_start")
def start_anywhere(request: PersonRequest, slug: str) -> HttpResponse:
    """On any box that fits; its page says why on that one."""
    found = find(request, slug)
    try:
        run = box_choice.start_anywhere(found, by=request.user)
    except box_choice.BoxChoiceError as error:
        messages.error(request, str(error))
        return redirect("profile", slug=found.slug)
    tasks.nudge(run)
    messages.success(request, str(run.start.around["placed"]))
    return redirect("server", slug=run.server.slug)


@get("servers/<slug:slug>/", Permission.VIEW)
def server(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server")


@get("servers/<slug:slug>/log/", Permission.VIEW)
def server_log(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server_log")


@get("servers/<slug:slug>/metrics/", Permission.VIEW)
def server_metrics(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server_metrics")


@get("servers/<slug:slug>/check-up/", Permission.VIEW)
def server_checkup(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server_checkup")


@get("servers/<slug:slug>/configuration/", Permission.VIEW)
def server_configuration(request: PersonRequest, slug: str) -> HttpResponse:
    return _show(request, slug, "server_configuration")


@get("servers/<slug:slug>/runs/", Permission.VIEW)
def server_runs(request: PersonRequest, slug: str) -> HttpResponse:
    """With ?compare= twice, what differs between two of them."""
    chosen = request.GET.getlist("compare")
    server = get_object_or_404(Server, slug=slug)
    compared = server_page.compare_runs(server, chosen) if chosen else None
    return _show(request, slug, "server_runs", chosen=chosen, compared=compared)


def _show(request: PersonRequest, slug: str, name: str, **more: Any) -> HttpResponse:
    found = get_object_or_404(Server.objects.with_details(), slug=slug)
    run = _find_run(found, request.GET.get("run", ""))
    tab = server_page.BY_NAME[name]
    shown = server_page.build_context(found, run, request.user, request.get_host(), tab)
    begins = starts.take_planned(request, found)
    return render(
        request,
        "runs/page.html",
        {**shown, **more, "tabs": server_page.TABS, "begins_start": begins},
    )


def _find_run(server: Server, asked: str) -> Run | None:
    if not asked or (server.run_id is not None and asked == str(server.run_id)):
        return server.run
    runs = server.runs.select_related("started_by", "stopped_by", "version", *PARTS)
    return get_object_or_404(runs, pk=numbers.whole(asked))


_GZIP = 31  # zlib's window for a gzip file


@get("runs/<int:run_id>/", Permission.VIEW, name="run")
def show_run(request: PersonRequest, run_id: int) -> HttpResponse:
    """The server's page with this run; browsers take #L1234 along."""
    found = get_object_or_404(Run.objects.select_related("server"), pk=run_id)
    return redirect(f"{reverse('server', args=[found.server.slug])}?run={found.pk}")


@get("runs/<int:run_id>/log/", Permission.VIEW)
async def run_log(request: PersonRequest, run_id: int) -> StreamingHttpResponse:
    """`?raw` keeps colours and all else that a terminal obeys, `?timestamps` puts Docker's timestamp
    before each line, `?gz` packs."""
    run = await aget_object_or_404(Run.objects.select_related("server"), pk=run_id)
    text = _read_log(run, is_raw="raw" in request.GET, has_times="timestamps" in request.GET)
    name = f"{run.server.slug}-run-{run.pk}.txt"
    if "gz" in request.GET:
        return send_file(f"{name}.gz", _compress(text), "application/gzip")
    return send_file(name, text, "text/plain; charset=utf-8")


async def _compress(text: AsyncIterator[str]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(level=4, wbits=_GZIP)
    async for block in text:
        if packed := packer.compress(block.encode()):
            yield packed
    yield packer.flush()


async def _read_log(run: Run, *, is_raw: bool, has_times: bool) -> AsyncIterator[str]:
    position = 0
    read = sync_to_async(LogChunk.objects.lines)
    while lines := await read(run.pk, position, 5000, most=MOST_CHUNKS):
        position = lines[-1].number
        block = "".join(
            f"{line.at} {line.text}\n" if has_times else f"{line.text}\n" for line in lines
        )
        yield block if is_raw else parsing.safe(block)
