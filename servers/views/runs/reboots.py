"""Notices of a box's reboot, until they are read."""

from typing import cast

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST

from servers import events
from servers.models import AuditEntry, Permission, Reboot, User
from servers.views.access import allow


@require_POST
@allow(Permission.OPERATE)
def box_boot_dismiss(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    """For everybody: the audit log says who did."""
    boot = get_object_or_404(Reboot, pk=pk, box__slug=slug)
    person = cast(User, request.user)
    with transaction.atomic():
        if boot.dismiss(person):
            AuditEntry.note(person, "put away restart", boot.box)
    events.publish_change("box", boot.box_id)
    return HttpResponse(status=204)
