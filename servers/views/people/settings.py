"""Pages of settings: you, secrets, one box, encryption, and about this inferdash."""

import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from django.conf import settings as configured
from django.contrib import messages
from django.db import transaction
from django.db.models import Count, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.debug import sensitive_post_parameters

from servers import tasks
from servers.forms.notifications import NotificationChoicesForm
from servers.forms.people import BoxForm, SecretForm, SecretValueForm
from servers.launch import numbers
from servers.launch.engines.placement import resolve
from servers.lifecycle.alerts import choose
from servers.lifecycle.links import sealing
from servers.models import (
    AuditEntry,
    Box,
    EnvironmentGroup,
    Permission,
    Profile,
    Run,
    RunLog,
    Secret,
)
from servers.models.alerts import find_choices
from servers.views.access import PersonRequest, get, get_or_post, post, serve_public
from servers.views.responses import render_form

ENDS_SOON = 14  # days: whoever renews by a program does so 30 days before


@dataclass(frozen=True, kw_only=True)
class Authority:
    certificate: str  # PEM
    fingerprint: str  # SHA-256, as browsers write it


def show_authority() -> Authority | None:
    """None where inferdash has none."""
    if configured.OWN_TLS is None:
        return None
    text = (configured.OWN_TLS / "ca.crt").read_text()
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(text)).digest()
    return Authority(certificate=text, fingerprint=digest.hex(":").upper())


def days_left() -> int | None:
    """Until the certificate of TLS_CERT ends, where that is soon; None: it is not, or there is none.

    One of the machine's own is renewed by itself. Below 0: it has ended.
    """
    if not configured.TLS_CERT:
        return None
    try:
        data = Path(configured.TLS_CERT).read_bytes()
        certificate = x509.load_pem_x509_certificate(data)
    except (OSError, ValueError):
        return None  # it is being put in place: the log tells what is wrong with it
    left = (certificate.not_valid_after_utc - timezone.now()).days
    return left if left < ENDS_SOON else None


# A browser that warns of the certificate comes before any login.
@serve_public("ca.crt", "GET", name="authority")
def download_authority(_request: HttpRequest) -> HttpResponse:
    found = show_authority()
    if found is None:
        raise Http404("This inferdash has no authority of its own.")
    return HttpResponse(found.certificate, content_type="application/x-x509-ca-cert")


@get("settings/secrets/", Permission.ADMINISTER, name="settings_secrets")
def list_secrets(request: PersonRequest) -> HttpResponse:
    uses = find_uses()
    found = Secret.objects.select_related("created_by").order_by("name", "pk")
    secrets = [(secret, uses.get(secret.pk, [])) for secret in found]
    return render(request, "people/settings/secrets.html", {"secrets": secrets})


@get_or_post("settings/secrets/add/", Permission.ADMINISTER)
@sensitive_post_parameters("value")
def secret_add(request: PersonRequest) -> HttpResponse:
    form = SecretForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        me = request.user
        with transaction.atomic():
            secret = Secret.seal(form.cleaned_data["name"], form.cleaned_data["value"], me)
            AuditEntry.note(me, "add secret", secret)
        is_token = secret.name == "HF_TOKEN"
        then = " Choose it on the page of each box that is to use it." if is_token else ""
        messages.success(request, f"{secret} is kept, encrypted.{then}")
        return redirect("settings_secrets")
    return render_form(request, "people/settings/secret_form.html", {"form": form})


@get_or_post("settings/secrets/<int:pk>/replace/", Permission.ADMINISTER)
@sensitive_post_parameters("value")
def secret_replace(request: PersonRequest, pk: int) -> HttpResponse:
    secret = get_object_or_404(Secret, pk=pk)
    form = SecretValueForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        me = request.user
        with transaction.atomic():
            secret.replace(form.cleaned_data["value"], me)
            sealing.seal_anew()
            AuditEntry.note(me, "replace secret", secret)
        messages.success(request, f"{secret} is replaced. Servers get it at their next start.")
        return redirect("settings_secrets")
    context = {"form": form, "secret": secret}
    return render_form(request, "people/settings/secret_form.html", context)


@post("settings/secrets/<int:pk>/delete/", Permission.ADMINISTER)
def secret_delete(request: PersonRequest, pk: int) -> HttpResponse:
    secret = get_object_or_404(Secret, pk=pk)
    if uses := find_uses().get(pk):
        messages.error(
            request,
            f"{secret} is used by {', '.join(uses)}, which would not start without it, so it was "
            "not deleted. Take it out there first, or replace its value.",
        )
        return redirect("settings_secrets")
    with transaction.atomic():
        secret.delete()
        AuditEntry.note(request.user, "delete secret", secret)
    messages.success(request, f"{secret} is deleted.")
    return redirect("settings_secrets")


def find_uses() -> dict[int, list[str]]:
    """By a secret's key, the profiles, environment groups, boxes and running servers that need it."""
    uses: dict[int, list[str]] = {}
    for profile in Profile.objects.active().exclude(current=None).select_related("current"):
        for pk in profile.launch.secret_env.values():
            uses.setdefault(pk, []).append(str(profile))
    for group in EnvironmentGroup.objects.exclude(current=None).select_related("current"):
        for pk in group.variables.secret_env.values():
            uses.setdefault(pk, []).append(f"the environment group {group}")
    for box in Box.objects.all():
        if box.hf_token_id is not None:
            uses.setdefault(box.hf_token_id, []).append(str(box))
    # Of an earlier version, or of a profile that was put away.
    for run in Run.objects.active().select_related("server", "version__profile"):
        for pk in run.version.launch.secret_env.values():
            if str(run.version.profile) not in uses.setdefault(pk, []):
                uses[pk].append(f"{run.server} as it runs now")
    return uses


@get("settings/", Permission.ACCOUNT)
def settings(request: PersonRequest) -> HttpResponse:
    return _show_you(request, NotificationChoicesForm(choices=find_choices(request.user)))


@post("settings/mine/", Permission.VIEW, name="notification_choices")
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
    context = {"authority": show_authority(), "form": form, "port": configured.PORT}
    return render(request, "people/settings/you.html", context)


@get_or_post("settings/boxes/<slug:slug>/", Permission.ADMINISTER)
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


@get("settings/about/", Permission.ACCOUNT, name="settings_about")
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
        ("Check-ups", "on" if configured.HAS_BENCHMARKS else "off", "INFERDASH_BENCHMARKS"),
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
        "size": numbers.size(found["size"]),
        "runs": found["runs"],
        "head": _amount(configured.LOG_HEAD),
        "tail": configured.LOG_TAIL and _amount(configured.LOG_TAIL),
        "days": configured.LOG_DAYS,
        "total": configured.LOG_TOTAL and _amount(configured.LOG_TOTAL),
    }


def _amount(size: int) -> str:
    return f"{size / 2**20:.3g} MiB" if size < 2**30 else f"{size / 2**30:.3g} GiB"
