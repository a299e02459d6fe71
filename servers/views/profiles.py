"""Profiles: the list, one profile, and the form that makes and changes them."""

from dataclasses import asdict
from typing import cast

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.text import slugify
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import lifecycle, live
from servers.forms.profile import ProfileForm, opens_the_box
from servers.models import Box, Entry, Profile, Role, Server, User
from servers.views.access import allow


@require_GET
@allow(Role.VIEWER)
def profiles(request: HttpRequest) -> HttpResponse:
    found = Profile.objects.for_list(request.GET.get("q", ""))
    return render(request, "profiles/list.html", {"profiles": found, "q": request.GET.get("q", "")})


@require_GET
@allow(Role.VIEWER)
def profile(request: HttpRequest, slug: str) -> HttpResponse:
    found = _find(slug)
    servers = list(found.servers.select_related("box", "run").order_by("box__slug"))
    return render(
        request,
        "profiles/profile.html",
        {
            "profile": found,
            "launch": found.launch,
            "versions": found.versions.select_related("author"),
            "servers": [
                (server, lifecycle.preview(found.launch, server.box)) for server in servers
            ],
            "free_boxes": Box.objects.exclude(servers__in=servers),
        },
    )


@require_http_methods(["GET", "POST"])
@allow(Role.EDITOR)
def profile_new(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    source = Profile.objects.filter(slug=request.GET.get("from", "")).first()
    form = ProfileForm(request.POST or None, person=person, copied_from=source)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            made = Profile.objects.create(
                slug=slugify(form.cleaned_data["name"])[:63],
                name=form.cleaned_data["name"],
                notes=form.cleaned_data["notes"],
                owner=person,
            )
            made.save_version(form.launch(), by=person, message="First version")
            Server.objects.create(slug=made.slug, profile=made, box=form.cleaned_data["box"])
            Entry.note(person, "create profile", made)
        live.servers_changed()
        return redirect("profile", slug=made.slug)
    return render(request, "profiles/form.html", {"form": form, "has_box": Box.objects.exists()})


@require_http_methods(["GET", "POST"])
@allow(Role.EDITOR)
def profile_edit(request: HttpRequest, slug: str) -> HttpResponse:
    person = cast(User, request.user)
    found = _find(slug)
    form = ProfileForm(request.POST or None, person=person, profile=found)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            found.name = form.cleaned_data["name"]
            found.notes = form.cleaned_data["notes"]
            found.save(update_fields=["name", "notes"])
            launch = form.launch()
            if launch == found.launch:
                messages.info(
                    request, "Nothing about the launch changed, so there is no new version."
                )
            else:
                version = found.save_version(
                    launch, by=person, message=form.cleaned_data["message"]
                )
                messages.success(
                    request, f"Saved as version {version.number}. It is used from the next start."
                )
            Entry.note(person, "edit profile", found)
        live.servers_changed()
        return redirect("profile", slug=found.slug)
    return render(request, "profiles/form.html", {"form": form, "profile": found, "has_box": True})


@require_POST
@allow(Role.EDITOR)
def profile_place(request: HttpRequest, slug: str) -> HttpResponse:
    """Make the profile startable on one more box."""
    found = _find(slug)
    box = get_object_or_404(Box, slug=request.POST.get("box", ""))
    if opens_the_box(asdict(found.launch)) and not cast(User, request.user).may_administer:
        raise PermissionDenied(
            f"{found} has settings that only an admin may give a container, such as privileged or "
            "devices. Only an admin may place it on another box."
        )
    Server.objects.get_or_create(
        profile=found, box=box, defaults={"slug": f"{found.slug}-{box.slug}"[:80]}
    )
    live.servers_changed()
    return redirect("profile", slug=found.slug)


def _find(slug: str) -> Profile:
    return get_object_or_404(Profile.objects.select_related("current", "owner"), slug=slug)
