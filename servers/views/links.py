"""Pages of further boxes: the list, the token to join with, and decisions about each."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from servers.contexts import links
from servers.lifecycle.links import decisions, upgrades
from servers.lifecycle.links.invitations import LinkError, invite_box, withdraw
from servers.models import BoxInvitation, BoxLink, BoxUpgrade, Permission
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.responses import render_question, respond_text, respond_told


@get("settings/boxes/", Permission.ADMINISTER, name="settings_boxes")
def list_boxes(request: PersonRequest) -> HttpResponse:
    context = {"boxes": links.list_linked(), "requests": links.list_requests()}
    return render(request, "links/boxes.html", context)


@get_or_post("settings/links/add/", Permission.ADMINISTER, name="box_add")
def add_box(request: PersonRequest) -> HttpResponse:
    """How; with POST a token, which is shown this once."""
    context: dict[str, Any] = {
        "wire": settings.WIRE,
        "in_containers": settings.IN_CONTAINERS,
        "ports": {
            "ssh": settings.HUB_PORT,
            "database": settings.HUB_DATABASE_PORT,
            "redis": settings.HUB_REDIS_PORT,
        },
        "is_sqlite": "sqlite" in settings.DATABASES["default"]["ENGINE"],
        "requests": links.list_requests(),
        "open_count": BoxInvitation.objects.select_open().filter(link=None).count(),
    }
    if request.method == "POST":
        try:
            invitation, token = invite_box(request.user, now=timezone.now())
        except LinkError as error:
            context["why"] = str(error)
        else:
            line = token.write()
            context |= {
                "invitation": invitation,
                "command": f"make join TOKEN={line}",
                "compose_command": f"JOIN={line} docker compose up -d --build box",
            }
    return render(request, "links/add.html", context)


@post("settings/links/invitations/<int:pk>/withdraw/", Permission.ADMINISTER, name="box_withdraw")
def withdraw_invitation(request: PersonRequest, pk: int) -> HttpResponse:
    if withdraw(get_object_or_404(BoxInvitation, pk=pk), request.user):
        messages.success(request, "The token is withdrawn: no box can ask with it.")
    else:
        messages.info(request, "The token was over already.")
    return redirect("box_add")


@get_or_post("settings/links/<int:pk>/let-in/", Permission.ADMINISTER, name="box_let_in")
def let_box_in(request: PersonRequest, pk: int) -> HttpResponse:
    link = get_object_or_404(BoxLink, pk=pk)
    name = str(request.POST.get("name", link.name)).strip().lower()
    context: dict[str, Any] = {"link": link, "name": name}
    if request.method == "GET":
        context["is_taken"] = decisions.is_name_taken(link.name)
        context["is_joined"] = BoxLink.objects.select_joined().filter(box__slug=link.name).exists()
        return render_question(request, f"Let {link} in?", "links/_let_in.html", context)
    try:
        replaces = request.POST.get("replaces") == "yes"
        joined = decisions.let_in(link, request.user, name=name, replaces=replaces)
    except LinkError as error:
        context["error"] = str(error)
        return render_question(request, f"Let {link} in?", "links/_let_in.html", context)
    messages.success(request, f"{joined} is let in. It appears here once it has set up its link.")
    return redirect("settings_boxes")


@post("settings/links/<int:pk>/refuse/", Permission.ADMINISTER, name="box_refuse")
def refuse_box(request: PersonRequest, pk: int) -> HttpResponse:
    link = get_object_or_404(BoxLink, pk=pk)
    try:
        decisions.refuse(link, request.user)
    except LinkError as error:
        return respond_text(str(error))
    return respond_told(f"{link} is refused, and was told so.")


@get_or_post("settings/links/<int:pk>/revoke/", Permission.ADMINISTER, name="box_revoke")
def revoke_box(request: PersonRequest, pk: int) -> HttpResponse:
    link = get_object_or_404(BoxLink.objects.select_related("box"), pk=pk)
    if request.method == "GET":
        context = links.build_revocation(link)
        return render_question(request, f"Revoke {link}?", "links/_revoke.html", context)
    try:
        decisions.revoke(link, request.user)
    except LinkError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{link} is revoked. Its link is cut within 5 s.")
    return redirect("settings_boxes")


@post("settings/links/<int:pk>/release/", Permission.ADMINISTER, name="box_release")
def release_box(request: PersonRequest, pk: int) -> HttpResponse:
    link = get_object_or_404(BoxLink, pk=pk)
    try:
        decisions.release(link, request.user)
    except LinkError as error:
        return respond_text(str(error))
    return respond_told(f"{link} is let in again.")


@get_or_post("settings/links/<int:pk>/remove/", Permission.ADMINISTER, name="box_remove")
def remove_box(request: PersonRequest, pk: int) -> HttpResponse:
    link = get_object_or_404(BoxLink.objects.select_related("box"), pk=pk)
    if request.method == "GET":
        context = links.build_removal(link)
        return render_question(request, f"Remove {link}?", "links/_remove.html", context)
    try:
        decisions.remove(link, request.user)
    except LinkError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"{link} is removed, with what was known of it.")
    return redirect("settings_boxes")


@get_or_post("settings/links/<int:pk>/bring-up/", Permission.ADMINISTER, name="box_bring_up")
def bring_box_up(request: PersonRequest, pk: int) -> HttpResponse:
    link = get_object_or_404(BoxLink.objects.select_related("box"), pk=pk)
    if request.method == "GET":
        context = links.build_upgrade(link)
        return render_question(request, f"Bring {link} up?", "links/_bring_up.html", context)
    try:
        upgrades.bring_up(link, request.user)
    except LinkError as error:
        messages.error(request, str(error))
    return redirect("settings_boxes")


@post("settings/links/<int:pk>/stay/", Permission.ADMINISTER, name="box_stay")
def cancel_upgrade(request: PersonRequest, pk: int) -> HttpResponse:
    upgrade = get_object_or_404(BoxUpgrade.objects.select_related("box"), pk=pk)
    try:
        upgrades.cancel(upgrade, request.user)
    except LinkError as error:
        return respond_text(str(error))
    return respond_told(f"{upgrade.box} stays as it is.")
