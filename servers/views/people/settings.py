"""Pages of settings that are nobody else's: you, boxes, and about this inferdash."""

from pathlib import Path
from typing import Any

from django.conf import settings as configured
from django.contrib import messages
from django.db import transaction
from django.db.models import Count, Sum
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from servers import tasks
from servers.forms.notification_choices import NotificationChoicesForm
from servers.forms.people import BoxForm
from servers.launch.engines.placement import resolve
from servers.lifecycle.alerts.choices import choose
from servers.models import AuditEntry, Box, Permission, RunLog
from servers.models.alerts.choices import find_choices
from servers.views.access import PersonRequest, allow
from servers.views.people import encryption
from servers.views.people.secrets import find_uses


@require_GET
@allow(Permission.ACCOUNT)
def settings(request: PersonRequest) -> HttpResponse:
    return _show_you(request, NotificationChoicesForm(choices=find_choices(request.user)))


@require_POST
@allow(Permission.VIEW)
def save_notifications(request: PersonRequest) -> HttpResponse:
    form = NotificationChoicesForm(request.POST, choices=find_choices(request.user))
    if not form.is_valid():
        return _show_you(request, form)
    said = form.cleaned_data
    choose(
        request.user,
        browser=said["browser"],
        mail=said.get("mail", []),
        address=said.get("address", ""),
    )
    messages.success(request, "Your notifications are saved.")
    return redirect("settings")


def _show_you(request: PersonRequest, form: NotificationChoicesForm) -> HttpResponse:
    context = {"authority": encryption.show_authority(), "form": form, "port": configured.PORT}
    return render(request, "people/settings/you.html", context)


@require_GET
@allow(Permission.ADMINISTER)
def list_boxes(request: PersonRequest) -> HttpResponse:
    boxes = Box.objects.select_related("hf_token")
    return render(request, "people/settings/boxes.html", {"boxes": boxes})


@require_http_methods(["GET", "POST"])
@allow(Permission.ADMINISTER)
def box_settings(request: PersonRequest, slug: str) -> HttpResponse:
    box = get_object_or_404(Box, slug=slug)
    limits = box.facts.get("limits")
    form = BoxForm(request.POST or None, instance=box, prefix=box.slug, uses=find_uses())
    if request.method == "POST" and _is_valid(form, box):
        _save(request, form)
        messages.success(request, f"{box} is changed. It counts from each server's next start.")
        return redirect("settings_boxes")
    context = {"box": box, "form": form, "limits": limits}
    return render(request, "people/settings/box.html", context)


def _is_valid(form: BoxForm, box: Box) -> bool:
    if form.is_valid() and "hf_cache" in form.changed_data and form.instance.hf_cache:
        path = resolve(form.instance.hf_cache, home=form.instance.home)
        if refusal := tasks.mount_refusal(box, path):
            form.add_error("hf_cache", refusal)
    return form.is_valid()


def _save(request: PersonRequest, form: BoxForm) -> None:
    with transaction.atomic():
        box = form.save(commit=False)
        # Only these: the watcher writes the others at the same time.
        box.save(update_fields=list(BoxForm.Meta.fields))
        changed = {name: str(getattr(box, name) or "none") for name in form.changed_data}
        AuditEntry.note(request.user, "change box", box, **changed)


@require_GET
@allow(Permission.ACCOUNT)
def show_about(request: PersonRequest) -> HttpResponse:
    context: dict[str, Any] = {"version": configured.VERSION}
    if request.user.may_administer:
        context |= {"logs": _logs(), "installation": _describe_installation()}
    return render(request, "people/settings/about.html", context)


def _describe_installation() -> list[tuple[str, str, str]]:
    """What .env has set, or left as it is: name, value, variable. Nothing of it is secret."""
    database = configured.DATABASES["default"]
    is_sqlite = "sqlite" in database["ENGINE"]
    return [
        ("Data folder", str(configured.DATA), "INFERDASH_DATA"),
        (
            "Database",
            f"SQLite, {Path(database['NAME']).name}" if is_sqlite else "PostgreSQL",
            "DATABASE_URL",
        ),
        ("Address in messages", configured.PUBLIC_URL, "INFERDASH_URL"),
        ("Encryption", _describe_encryption(), "TLS"),
        ("Mail", configured.DEFAULT_FROM_EMAIL, "INFERDASH_EMAIL_URL"),
        ("Hugging Face Hub", configured.HUB or "off", "INFERDASH_HUB"),
        ("Time zone", configured.TIME_ZONE, "TZ"),
    ]


def _describe_encryption() -> str:
    if configured.OWN_TLS is not None:
        return "a certificate of this machine’s own"
    if configured.TLS_CERT:
        return configured.TLS_CERT
    return "by a reverse proxy" if configured.BEHIND_TLS else ""


def _logs() -> dict[str, Any]:
    """How much is kept of logs, and the bounds that the watcher holds."""
    kept = RunLog.objects.filter(size__gt=0)
    found = kept.aggregate(size=Sum("size", default=0), runs=Count("pk"))
    return {
        "size": _amount(found["size"]),
        "runs": found["runs"],
        "head": _amount(configured.LOG_HEAD),
        "tail": configured.LOG_TAIL and _amount(configured.LOG_TAIL),
        "days": configured.LOG_DAYS,
        "total": configured.LOG_TOTAL and _amount(configured.LOG_TOTAL),
    }


def _amount(size: int) -> str:
    return f"{size / 2**20:.3g} MiB" if size < 2**30 else f"{size / 2**30:.3g} GiB"
