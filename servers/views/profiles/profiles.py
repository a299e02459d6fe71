"""Pages of profiles: the list, one profile, its versions, saves and exports."""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import yaml
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.core.paginator import Paginator
from django.db import transaction
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from servers import events, lifecycle, tasks
from servers.contexts.benchmark_history import describe_history
from servers.forms.environment import EnvironmentForm
from servers.forms.profile import ProfileForm, opens_the_box
from servers.judge import charts
from servers.launch import numbers
from servers.launch.commandline import export
from servers.launch.engines import ENGINES, change, choices
from servers.launch.engines.change import split_flags
from servers.launch.engines.engine import SECRET_FLAGS, flag_value
from servers.launch.engines.launch import Launch, fill_parameters
from servers.launch.recipes import document
from servers.lifecycle.profiles import attempts, preflight
from servers.lifecycle.profiles.export_all import document_of, without_keys
from servers.lifecycle.profiles.knowledge import LaunchContext
from servers.lifecycle.weights import fetch, inventory
from servers.models import (
    AuditEntry,
    Benchmark,
    Box,
    Permission,
    Profile,
    ProfileImport,
    Run,
    Server,
    User,
)
from servers.models.profiles import (
    EnvironmentVersion,
    ProfileFilter,
    ProfileHealth,
    ProfileVersion,
    Stale,
)
from servers.views.access import PersonRequest, get, post
from servers.views.responses import send_text

A_PAGE = 100
LATEST = 10  # runs on a profile's page


@get("profiles/", Permission.VIEW)
def profiles(request: PersonRequest) -> HttpResponse:
    wanted = ProfileFilter(
        text=request.GET.get("q", "")[:200],
        engine=_read_filter(request, "engine", ENGINES),
        health=_read_filter(request, "health", ProfileHealth.values),
    )
    found = Profile.objects.for_list(request.user, wanted)
    page = Paginator(found, A_PAGE).get_page(request.GET.get("page"))
    counts = preflight.of_profiles(page)
    return render(
        request,
        "profiles/list.html",
        {
            "page": page,
            "rows": [{"profile": each, "count": counts[each.pk]} for each in page],
            "wanted": wanted,
            "is_filtered": wanted != ProfileFilter(),
            "engines": choices(),
            "healths": ProfileHealth.choices,
        },
    )


def _read_filter(request: PersonRequest, name: str, among: Collection[str]) -> str:
    value = request.GET.get(name, "")
    return value if value in among else ""


@get("profiles/<slug:slug>/", Permission.VIEW)
def profile(request: PersonRequest, slug: str) -> HttpResponse:
    found = find(request, slug)
    servers = list(found.servers.select_related("box", "run").order_by("box__slug", "slug"))
    return render(
        request,
        "profiles/profile.html",
        {
            "profile": found,
            "launch": found.launch,
            "record": attempts.compute_record(found),
            "is_compared": ProfileImport.objects.filter(version__profile=found).exists(),
            "chart": charts.chart(attempts.starts(found)),
            **describe_history(Benchmark.objects.filter(version__profile=found)),
            "is_favourite": found.fans.filter(pk=request.user.pk).exists(),
            "versions": found.versions.select_related("author"),
            "runs": Run.objects.filter(server__profile=found).select_related(
                "server", "version", "log", "health"
            )[:LATEST],
            # The one button of the page that is meant first.
            "first_start": next(
                (each for each in servers if each.can_start and request.user.may_operate), None
            ),
            "servers": [{"server": server, **_build_known(found, server)} for server in servers],
            # What holds everywhere, for one that is on no box.
            "checked": preflight.anywhere(found.launch) if not servers else None,
            "has_choice": Box.objects.count() > 1 and not found.launch.parameters,
            # One more server of the same box says something only with values of its own.
            "free_boxes": Box.objects.all()
            if found.launch.parameters
            else Box.objects.exclude(servers__in=[each for each in servers if not each.is_watched]),
        },
    )


@get("profiles/<slug:slug>/known/<slug:server>/", Permission.VIEW)
def profile_known(request: PersonRequest, slug: str, server: str) -> HttpResponse:
    """The part of a profile's page that depends on what a box's image has said of itself."""
    found = find(request, slug)
    placed = get_object_or_404(found.servers.select_related("box", "run"), slug=server)
    context = {"profile": found, "launch": found.launch, "server": placed}
    return render(request, "profiles/_known.html", context | _build_known(found, placed))


def _build_known(found: Profile, server: Server) -> dict[str, Any]:
    context = LaunchContext(fill_parameters(found.launch, server.values), server.box, found, server)
    tasks.look_at_mounts(context)
    checked = preflight.check(context)
    return {
        "preview": lifecycle.preview(context),
        "checked": checked,
        "findings": checked.findings,
        "fit": checked.fit,
        "image": context.image,
        "offer": fetch.find_offer(context),
    }


@post("profiles/<slug:slug>/favourite/", Permission.VIEW)
def profile_favourite(request: PersonRequest, slug: str) -> HttpResponse:
    found = find(request, slug)
    mark_favourite(request, found)
    return redirect("profile", slug=found.slug)


def mark_favourite(request: PersonRequest, row: Profile | Server) -> None:
    """As the form says it, or no favourite any more."""
    change = row.fans.add if request.POST.get("is") == "yes" else row.fans.remove
    change(request.user)


def save_launch(
    found: Profile, launch: Launch, *, by: User, message: str, action: str
) -> ProfileVersion:
    """Make the launch the profile's newest version, in one step that a person has asked for.

    Raises PermissionDenied for settings that only an admin may save, BadRequest when somebody
    else saves at the same moment.
    """
    if opens_the_box(asdict(launch)) and not by.may_administer:
        raise PermissionDenied(
            f"It would give {found} settings that only an admin may give a container, such as "
            "privileged or devices. Ask an admin to do it."
        )
    try:
        with transaction.atomic():
            found.claim(saves=found.saves)
            version = found.save_version(launch, by=by, message=message)
            AuditEntry.note(by, action, found, version=version.number)
            inventory.look_soon(found)
    except Stale:
        raise BadRequest(
            f"Somebody else has just saved {found}. Look at it and try again."
        ) from None
    events.publish_change("servers")
    return version


def find(request: PersonRequest, slug: str) -> Profile:
    seen = Profile.objects.seen_by(request.user)
    return get_object_or_404(seen.select_related("current", "owner"), slug=slug)


@get("profiles/<slug:slug>/versions/<int:number>/", Permission.VIEW)
def profile_version(request: PersonRequest, slug: str, number: int) -> HttpResponse:
    """A version beside the one before it, or beside ?against=."""
    found = find(request, slug)
    versions = found.versions.select_related("author")
    version = get_object_or_404(versions, number=number)
    wanted = numbers.whole(request.GET.get("against", ""))
    against = versions.filter(number=number - 1 if wanted is None else wanted).first()
    return render(
        request,
        "profiles/version.html",
        {
            "profile": found,
            "version": version,
            "against": against,
            "others": versions.exclude(pk=version.pk),
            "differences": change.compare_launches(against.launch, version.launch)
            if against
            else None,
            "runs": version.runs.select_related("server__box", "log", "health").order_by("-pk")[
                :10
            ],
        },
    )


@post("profiles/<slug:slug>/versions/<int:number>/restore/", Permission.EDIT)
def version_restore(request: PersonRequest, slug: str, number: int) -> HttpResponse:
    """Save what an older version says as a new one."""
    found = find(request, slug)
    version = get_object_or_404(found.versions, number=number)
    if version.launch == found.launch:
        messages.info(request, f"Version {number} says what the newest one says.")
        return redirect("profile", slug=found.slug)
    made = save_launch(
        found,
        version.launch,
        by=request.user,
        message=f"Back to version {number}",
        action="restore version",
    )
    messages.success(request, f"Version {made.number} says what version {number} said.")
    return redirect("profile", slug=found.slug)


def describe_unversioned(
    form: ProfileForm | EnvironmentForm,
    before: Mapping[str, object],
    version: ProfileVersion | EnvironmentVersion | None,
) -> str:
    """What a save has kept that makes no version."""
    changed = [
        name for name, value in form.describe().items() if _lines(value) != _lines(before[name])
    ]
    if not changed:
        return "Nothing was changed."
    titles = [str(form[name].label).lower() for name in changed]
    return f"Saved: {', '.join(titles)}. It stays version {version.number if version else 0}."


def _lines(value: object) -> object:
    """A text without the line ends that a browser writes its own way."""
    return value.splitlines() if isinstance(value, str) else value


@dataclass(frozen=True, kw_only=True)
class Form:
    title: str
    suffix: str
    content_type: str
    write: Callable[[Profile, Launch], str]


def _yaml(profile: Profile, launch: Launch) -> str:
    return document.write(document_of(profile, launch))


def _json(profile: Profile, launch: Launch) -> str:
    # The same keys as in YAML, of which JSON is a part.
    return json.dumps(yaml.safe_load(_yaml(profile, launch)), ensure_ascii=False, indent=2) + "\n"


FORMS = {
    "docker": Form(
        title="docker run",
        suffix="sh",
        content_type="text/x-shellscript",
        write=lambda profile, launch: export.docker_run(launch, name=profile.slug),
    ),
    "compose": Form(
        title="compose file",
        suffix="compose.yaml",
        content_type="application/yaml",
        write=lambda profile, launch: export.compose(launch, name=profile.slug),
    ),
    "yaml": Form(title="YAML", suffix="yaml", content_type="application/yaml", write=_yaml),
    "json": Form(title="JSON", suffix="json", content_type="application/json", write=_json),
}


@get("profiles/<slug:slug>/export/<slug:form>/", Permission.VIEW)
def profile_export(request: PersonRequest, slug: str, form: str) -> HttpResponse:
    """On a page to read and copy, or with ?download as a file."""
    if form not in FORMS:
        raise Http404(f"A profile cannot be exported as {form}.")
    found, chosen = find(request, slug), FORMS[form]
    written = export_text(found, form)
    if "download" in request.GET:
        return send_text(f"{found.slug}.{chosen.suffix}", written, chosen.content_type)
    return render(
        request,
        "profiles/export.html",
        {
            "profile": found,
            "text": written,
            "chosen": form,
            "forms": FORMS,
            "secrets": sorted(found.launch.secret_env),
        },
    )


def export_text(profile: Profile, form: str) -> str:
    """A profile written in one of FORMS."""
    return FORMS[form].write(profile, without_keys(profile.launch))


def with_secrets(written: Launch, kept: Launch) -> Launch:
    """What was written out and read again, with what stays here when it is."""
    keys = [each for each in split_flags(kept.flags) if each[0] in SECRET_FLAGS]
    missing = [each for each in keys if flag_value(written.flags, each[0]) is None]
    words = tuple(word for name, values in missing for word in (name, *values))
    return replace(written, secret_env=kept.secret_env, flags=written.flags + words)
