"""Sets of parameters for talking to a profile's model: the team's, by name."""

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from servers.forms.preset import LIMIT, PresetError, check_room, read
from servers.launch.engines import defaults
from servers.models import AuditEntry, Permission, Preset, Server
from servers.views.access import PersonRequest, allow

DONE = 204


@require_http_methods(["GET", "POST"])
@allow(Permission.OPERATE)
def presets(request: PersonRequest, slug: str) -> HttpResponse:
    """Those of the server's profile; or one more, or another one under the same name."""
    server = _server(slug)
    if request.method == "POST":
        try:
            named = read(request.read(LIMIT + 1))
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
            "defaults": defaults.says(server.launch),
            "presets": [_line(each) for each in found],
        }
    )


@require_POST
@allow(Permission.OPERATE)
def preset_delete(request: PersonRequest, slug: str, pk: int) -> HttpResponse:
    server = _server(slug)
    found = get_object_or_404(server.profile.presets, pk=pk)
    found.delete()
    AuditEntry.note(request.user, "preset deleted", server.profile.slug, name=found.name)
    return HttpResponse(status=DONE)


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
