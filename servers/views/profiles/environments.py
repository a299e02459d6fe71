"""Pages of environment groups and presets."""

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db import IntegrityError, transaction
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from servers.forms.environment import LIMIT, EnvironmentForm, PresetError, check_room, read_preset
from servers.launch.engines import change
from servers.launch.engines.change import Difference
from servers.launch.engines.sampling import describe_defaults
from servers.models import (
    AuditEntry,
    EnvironmentGroup,
    Permission,
    Preset,
    Profile,
    Server,
)
from servers.models.profiles import Stale
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.profiles.profiles import describe_unversioned, find
from servers.views.responses import respond_done


@dataclass(frozen=True, kw_only=True)
class GroupUser:
    """A profile that says some of a group's variables."""

    profile: Profile
    missing: tuple[Difference, ...]  # what laying the group over it would change


@get("groups/", Permission.VIEW)
def groups(request: PersonRequest) -> HttpResponse:
    found = EnvironmentGroup.objects.select_related("current__author")
    return render(request, "profiles/groups/list.html", {"groups": found})


@get("groups/<slug:slug>/", Permission.VIEW)
def group(request: PersonRequest, slug: str) -> HttpResponse:
    found = find_group(slug)
    if wanted := request.GET.get("over", ""):
        return redirect("profile_group", slug=find(request, wanted).slug, key=found.slug)
    profiles = [
        each
        for each in Profile.objects.seen_by(request.user).select_related("current")
        if each.current is not None and found.is_for(each.launch)
    ]
    versions = list(found.versions.select_related("author"))
    before = [*versions[1:], None]
    context = {
        "group": found,
        "variables": found.variables,
        "holders": [holder for each in profiles if (holder := _holder(found, each))],
        "profiles": profiles,
        "versions": [
            (each, change.compare_launches(old.variables, each.variables) if old else [])
            for each, old in zip(versions, before, strict=True)
        ],
    }
    return render(request, "profiles/groups/group.html", context)


def _holder(found: EnvironmentGroup, profile: Profile) -> GroupUser | None:
    launch, said = profile.launch, found.variables
    names = said.env.keys() | said.secret_env.keys()
    if not names & (launch.env.keys() | launch.secret_env.keys()):
        return None
    return GroupUser(
        profile=profile, missing=tuple(change.compare_launches(launch, found.change.apply(launch)))
    )


@get_or_post("groups/new/", Permission.OPERATE)
@sensitive_post_parameters("env")
def group_new(request: PersonRequest) -> HttpResponse:
    """An empty one, or ?from= a profile's variables, of which a person leaves out what is its own."""
    person, wanted = request.user, request.GET.get("from", "")
    source = find(request, wanted) if wanted else None
    variables = source.launch if source else None
    form = EnvironmentForm(request.POST or None, person=person, variables=variables)
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                slug = form.slug_of(form.cleaned_data["name"])
                made = EnvironmentGroup.objects.create(slug=slug, **form.describe())
                made.save_version(form.variables(), by=person, message="First version")
                AuditEntry.note(person, "create environment group", made)
        except IntegrityError:
            form.add_error("name", "Somebody has just made a group with this name.")
        else:
            return redirect("group", slug=made.slug)
    return render(request, "profiles/groups/form.html", {"form": form, "source": source})


@get_or_post("groups/<slug:slug>/edit/", Permission.OPERATE)
@sensitive_post_parameters("env")
def group_edit(request: PersonRequest, slug: str) -> HttpResponse:
    found, person = find_group(slug), request.user
    form = EnvironmentForm(request.POST or None, person=person, group=found)
    context: dict[str, Any] = {"form": form, "group": found}
    if request.method == "POST" and form.is_valid():
        try:
            _save(request, found, form)
        except Stale:
            found = find_group(slug)
            form.build_upon(found)
            theirs, mine = found.variables, form.unsaved_variables()
            context |= {"group": found, "conflict": change.compare_launches(theirs, mine)}
        else:
            return redirect("group", slug=found.slug)
    return render(request, "profiles/groups/form.html", context)


def _save(request: PersonRequest, found: EnvironmentGroup, form: EnvironmentForm) -> None:
    """Raises Stale when somebody else has saved since the form was opened."""
    person = request.user
    with transaction.atomic():
        before = found.save_about(form.describe(), saves=form.cleaned_data["saves"])
        variables = form.variables()
        if variables != found.variables:
            message = form.cleaned_data["message"]
            version = found.save_version(variables, by=person, message=message)
            messages.success(
                request,
                f"Saved as version {version.number}. Profiles keep what they say until the group "
                "is laid over them again.",
            )
        else:
            messages.success(request, describe_unversioned(form, before, found.current))
        AuditEntry.note(person, "edit environment group", found)


@post("groups/<slug:slug>/versions/<int:number>/restore/", Permission.OPERATE)
def group_restore(request: PersonRequest, slug: str, number: int) -> HttpResponse:
    """Save what an older version says as a new one."""
    found, person = find_group(slug), request.user
    old = get_object_or_404(found.versions, number=number)
    if old.variables == found.variables:
        messages.info(request, f"Version {number} says what the newest one says.")
        return redirect("group", slug=found.slug)
    try:
        with transaction.atomic():
            found.claim(saves=found.saves)
            version = found.save_version(
                old.variables, by=person, message=f"Back to version {number}"
            )
            AuditEntry.note(person, "restore environment group", found, version=number)
    except Stale:
        messages.error(request, f"Somebody else has just saved {found}. Look at it and try again.")
    else:
        messages.success(request, f"Version {version.number} says what version {number} said.")
    return redirect("group", slug=found.slug)


@post("groups/<slug:slug>/delete/", Permission.OPERATE)
def group_delete(request: PersonRequest, slug: str) -> HttpResponse:
    found = find_group(slug)
    with transaction.atomic():
        said = found.variables
        names = [*said.env, *said.secret_env]
        AuditEntry.note(request.user, "delete environment group", found, variables=names)
        found.delete()
    messages.success(request, f"{found} is deleted. Profiles keep the variables they got from it.")
    return redirect("groups")


def find_group(slug: str) -> EnvironmentGroup:
    return get_object_or_404(EnvironmentGroup.objects.select_related("current"), slug=slug)


@get_or_post("chat/presets/<slug:slug>/", Permission.OPERATE)
def presets(request: PersonRequest, slug: str) -> HttpResponse:
    """Those of the server's profile; or one more, or another one under the same name."""
    server = _server(slug)
    if request.method == "POST":
        try:
            named = read_preset(request.read(LIMIT + 1))
            check_room(server.profile_id, named.name)
        except PresetError as error:
            return JsonResponse({"message": str(error)}, status=400)
        Preset.objects.update_or_create(
            profile=server.profile,
            name=named.name,
            defaults={"values": named.values, "by": request.user, "saved_at": timezone.now()},
        )
        AuditEntry.note(request.user, "preset", server.profile.slug, name=named.name)
    found = server.profile.presets.select_related("by")
    return JsonResponse(
        {
            "profile": server.profile.name,
            "defaults": describe_defaults(server.launch),
            "presets": [_line(each) for each in found],
        }
    )


@post("chat/presets/<slug:slug>/<int:pk>/delete/", Permission.OPERATE)
def preset_delete(request: PersonRequest, slug: str, pk: int) -> HttpResponse:
    server = _server(slug)
    found = get_object_or_404(server.profile.presets, pk=pk)
    found.delete()
    AuditEntry.note(request.user, "preset deleted", server.profile.slug, name=found.name)
    return respond_done()


def _server(slug: str) -> Server:
    shown = Server.objects.present().select_related("profile__current", "run__version")
    return get_object_or_404(shown, slug=slug)


def _line(preset: Preset) -> dict[str, Any]:
    return {
        "id": preset.pk,
        "name": preset.name,
        "by": preset.by.username if preset.by else "",
        **{part: preset.values.get(part) for part in ("params", "tools", "schema")},
    }
