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

from servers import events
from servers.contexts import alerts as alert_context
from servers.forms.notifications import NotificationChannelForm
from servers.lifecycle.alerts import acknowledge, ask_for_test, try_again
from servers.models import Alert, AuditEntry, Box, NotificationChannel, Permission
from servers.models.alerts import AlertKind
from servers.models.people.key import SecretError
from servers.views.access import PersonRequest, get, get_or_post, post
from servers.views.responses import respond_done

PER_PAGE = 50


@get("alerts/", Permission.VIEW)
def alerts(request: PersonRequest) -> HttpResponse:
    person = request.user
    box, kind = request.GET.get("box", ""), request.GET.get("kind", "")
    earlier = Paginator(_earlier(box, kind), PER_PAGE).get_page(request.GET.get("page"))
    notices = alert_context.now()
    context = {
        **alert_context.page(person, notices),
        "notices": alert_context.list_for(person, notices),
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


@post("alerts/<int:pk>/acknowledge/", Permission.OPERATE)
def alert_acknowledge(request: PersonRequest, pk: int) -> HttpResponse:
    acknowledge(get_object_or_404(Alert, pk=pk), by=request.user)
    return respond_done()


@post("alerts/dismiss/", Permission.VIEW)
def notice_dismiss(request: PersonRequest) -> HttpResponse:
    """From this person's dashboard and count; the page of alerts goes on showing it."""
    alert_context.dismiss(request.user, request.POST.get("mark", ""))
    events.publish_person_change(request.user.pk)
    return respond_done()


@get("settings/notifications/", Permission.ADMINISTER, name="channels")
def list_channels(request: PersonRequest) -> HttpResponse:
    context: dict[str, Any] = {
        "channels": alert_context.list_channels(),
        "url": settings.PUBLIC_URL,
        "mails": bool(settings.DEFAULT_FROM_EMAIL),
    }
    return render(request, "alerts/channels.html", context)


@get_or_post("settings/notifications/add/", Permission.ADMINISTER, name="channel_add")
@sensitive_post_parameters("address", "key")
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


@get_or_post("settings/notifications/<int:pk>/", Permission.ADMINISTER, name="channel_edit")
@sensitive_post_parameters("address", "key")
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
        try_again(channel)
    events.publish_change("alerts")
    return True


@post("settings/notifications/<int:pk>/delete/", Permission.ADMINISTER, name="channel_delete")
def delete_channel(request: PersonRequest, pk: int) -> HttpResponse:
    channel = get_object_or_404(NotificationChannel.objects.filter_team(), pk=pk)
    with transaction.atomic():
        AuditEntry.note(request.user, "delete notification channel", channel)
        channel.delete()
    events.publish_change("alerts")
    messages.success(request, f"{channel} is deleted. Nothing is sent there any more.")
    return redirect("channels")


@post("settings/notifications/<int:pk>/test/", Permission.ADMINISTER, name="channel_test")
def test_channel(request: PersonRequest, pk: int) -> HttpResponse:
    channel = get_object_or_404(NotificationChannel.objects.filter_team(), pk=pk)
    me = request.user
    ask_for_test(channel, by=me)
    AuditEntry.note(me, "test notification channel", channel)
    return respond_done()
