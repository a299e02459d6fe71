"""Pages of alerts, open and past, and of their channels."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import events
from servers.contexts.alerts import needs
from servers.forms.notification_channel import NotificationChannelForm
from servers.lifecycle.alerts import alerts as verbs
from servers.lifecycle.alerts import channels as channel_actions
from servers.models import Alert, AuditEntry, Box, NotificationChannel, Permission
from servers.models.alerts.alert import AlertKind
from servers.models.people.key import SecretError
from servers.views.access import PersonRequest, allow
from servers.views.responses import respond_done

PER_PAGE = 50


@require_GET
@allow(Permission.VIEW)
def alerts(request: PersonRequest) -> HttpResponse:
    person = request.user
    box, kind = request.GET.get("box", ""), request.GET.get("kind", "")
    earlier = Paginator(_earlier(box, kind), PER_PAGE).get_page(request.GET.get("page"))
    context = {
        **needs.page(person, needs.now()),
        "earlier": earlier,
        "boxes": Box.objects.all(),
        "kinds": AlertKind.choices,
        "box": box,
        "kind": kind,
    }
    return render(request, "alerts/page.html", context)


def _earlier(box: str, kind: str) -> QuerySet[Alert]:
    found = Alert.objects.exclude(cleared_at=None).with_details()
    if box:
        found = found.filter(box__slug=box)
    if kind:
        found = found.filter(kind=kind)
    return found


@require_POST
@allow(Permission.OPERATE)
def alert_acknowledge(request: PersonRequest, pk: int) -> HttpResponse:
    verbs.acknowledge(get_object_or_404(Alert, pk=pk), by=request.user)
    return respond_done()


@require_POST
@allow(Permission.VIEW)
def notice_dismiss(request: PersonRequest) -> HttpResponse:
    """From this person's dashboard and count; the page of alerts goes on showing it."""
    needs.dismiss(request.user, request.POST.get("mark", ""))
    events.publish_person_change(request.user.pk)
    return respond_done()


@require_GET
@allow(Permission.ADMINISTER)
def list_channels(request: PersonRequest) -> HttpResponse:
    context: dict[str, Any] = {
        "channels": needs.list_channels(),
        "url": settings.PUBLIC_URL,
        "mails": bool(settings.DEFAULT_FROM_EMAIL),
    }
    return render(request, "alerts/channels.html", context)


@sensitive_post_parameters("address", "key")
@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def add_channel(request: PersonRequest) -> HttpResponse:
    form = NotificationChannelForm(request.POST or None)
    if request.method == "GET" or not form.is_valid():
        return render(request, "alerts/channel.html", {"form": form})
    me = request.user
    form.instance.created_by = me
    with transaction.atomic():
        channel = form.save()
        AuditEntry.note(
            me, "add notification channel", channel, kind=channel.kind, where=channel.hint
        )
    messages.success(request, f"{channel} is kept. Press Test to see whether messages arrive.")
    return redirect("channels")


@sensitive_post_parameters("address", "key")
@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def edit_channel(request: PersonRequest, pk: int) -> HttpResponse:
    channel = get_object_or_404(NotificationChannel.objects.filter_team(), pk=pk)
    name = channel.name
    form = NotificationChannelForm(request.POST or None, instance=channel)
    if request.method == "POST" and form.is_valid() and _save(request, form):
        messages.success(request, f"{form.instance} is changed.")
        return redirect("channels")
    return render(request, "alerts/channel.html", {"form": form, "pk": pk, "name": name})


def _save(request: PersonRequest, form: NotificationChannelForm) -> bool:
    """False where the old address cannot be read, which the form then says."""
    try:
        with transaction.atomic():
            channel = form.save()
            # Of an address the trail says that it was changed, and not to what.
            changed = ", ".join(form.changed_data)
            AuditEntry.note(request.user, "change notification channel", channel, changed=changed)
    except SecretError as error:
        form.add_error("address", str(error))
        return False
    if "address" in form.changed_data:
        channel_actions.try_again(channel)
    events.publish_change("alerts")
    return True


@require_POST
@allow(Permission.ADMINISTER)
def delete_channel(request: PersonRequest, pk: int) -> HttpResponse:
    channel = get_object_or_404(NotificationChannel.objects.filter_team(), pk=pk)
    with transaction.atomic():
        AuditEntry.note(request.user, "delete notification channel", channel)
        channel.delete()
    events.publish_change("alerts")
    messages.success(request, f"{channel} is deleted. Nothing is sent there any more.")
    return redirect("channels")


@require_POST
@allow(Permission.ADMINISTER)
def test_channel(request: PersonRequest, pk: int) -> HttpResponse:
    channel = get_object_or_404(NotificationChannel.objects.filter_team(), pk=pk)
    me = request.user
    channel_actions.ask_for_test(channel, by=me)
    AuditEntry.note(me, "test notification channel", channel)
    return respond_done()
