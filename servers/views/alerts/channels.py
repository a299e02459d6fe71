"""Pages of notification channels. Addresses go in and never come out."""

from typing import Any, cast

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import events
from servers.contexts.alerts import needs
from servers.forms.notification_channel import NotificationChannelForm
from servers.lifecycle.alerts import channels as channel_actions
from servers.models import AuditEntry, NotificationChannel, Permission, User
from servers.models.people.secret import SecretError
from servers.views.access import allow

DONE = 204


@require_GET
@allow(Permission.ADMINISTER)
def outlets(request: HttpRequest) -> HttpResponse:
    return _page(request, NotificationChannelForm())


@sensitive_post_parameters("address", "key")
@require_POST
@allow(Permission.ADMINISTER)
def outlet_add(request: HttpRequest) -> HttpResponse:
    form = NotificationChannelForm(request.POST)
    if not form.is_valid():
        return _page(request, form)
    me = cast(User, request.user)
    form.instance.created_by = me
    with transaction.atomic():
        outlet = form.save()
        AuditEntry.note(me, "add notification channel", outlet, kind=outlet.kind, where=outlet.hint)
    messages.success(request, f"{outlet} is kept. Press Test to see whether messages arrive.")
    return redirect("outlets")


@sensitive_post_parameters("address", "key")
@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def outlet_edit(request: HttpRequest, pk: int) -> HttpResponse:
    outlet = get_object_or_404(NotificationChannel, pk=pk)
    name = outlet.name
    form = NotificationChannelForm(request.POST or None, instance=outlet)
    if request.method == "POST" and form.is_valid() and _save(request, form):
        messages.success(request, f"{form.instance} is changed.")
        return redirect("outlets")
    return render(request, "alerts/outlet.html", {"form": form, "pk": pk, "name": name})


def _save(request: HttpRequest, form: NotificationChannelForm) -> bool:
    """False where the old address cannot be read, which the form then says."""
    try:
        with transaction.atomic():
            outlet = form.save()
            # Of an address the trail says that it was changed, and not to what.
            changed = ", ".join(form.changed_data)
            AuditEntry.note(
                cast(User, request.user), "change notification channel", outlet, changed=changed
            )
    except SecretError as error:
        form.add_error("address", str(error))
        return False
    if "address" in form.changed_data:
        channel_actions.try_again(outlet)
    events.publish_change("alerts")
    return True


@require_POST
@allow(Permission.ADMINISTER)
def outlet_delete(request: HttpRequest, pk: int) -> HttpResponse:
    outlet = get_object_or_404(NotificationChannel, pk=pk)
    with transaction.atomic():
        AuditEntry.note(cast(User, request.user), "delete notification channel", outlet)
        outlet.delete()
    events.publish_change("alerts")
    messages.success(request, f"{outlet} is deleted. Nothing is sent there any more.")
    return redirect("outlets")


@require_POST
@allow(Permission.ADMINISTER)
def outlet_test(request: HttpRequest, pk: int) -> HttpResponse:
    outlet = get_object_or_404(NotificationChannel, pk=pk)
    me = cast(User, request.user)
    channel_actions.ask_for_test(outlet, by=me)
    AuditEntry.note(me, "test notification channel", outlet)
    return HttpResponse(status=DONE)


def _page(request: HttpRequest, form: NotificationChannelForm) -> HttpResponse:
    context: dict[str, Any] = {
        "outlets": needs.outlets(),
        "form": form,
        "url": settings.PUBLIC_URL,
        "mails": bool(settings.DEFAULT_FROM_EMAIL),
    }
    return render(request, "alerts/outlets.html", context)
