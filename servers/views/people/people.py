"""Pages of people: sessions, invites, roles, and the activity of everybody."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import groupby

from asgiref.sync import sync_to_async
from django.contrib import messages
from django.contrib.auth import login as log_in
from django.contrib.auth import logout as log_out
from django.contrib.auth import update_session_auth_hash
from django.core.paginator import Paginator
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters

from servers import events
from servers.contexts import activity as sentences
from servers.forms.people import (
    NAME_TAKEN,
    JoinForm,
    LoginForm,
    OwnPasswordForm,
    PasswordForm,
    RoleForm,
)
from servers.models import AuditEntry, Box, Invite, LoginFailure, Permission, Role, Server, User
from servers.state import samples
from servers.views import responses
from servers.views.access import PersonRequest, get, get_or_post, post, serve_public
from servers.views.responses import render_form

LAST_ADMIN = (
    "{} is the last active admin, so nothing was changed. Make somebody else an admin first."
)


NO_ROLE = "There is no such role. Choose one of the list."


@get("settings/people/", Permission.ADMINISTER, name="settings_people")
def list_people(request: PersonRequest) -> HttpResponse:
    return _page(request)


def _page(request: PersonRequest, *, link: tuple[Invite, str] | None = None) -> HttpResponse:
    """With a link that was just made: it is shown this once."""
    invites = Invite.objects.open().select_related("person", "created_by").order_by("expires_at")
    context = {
        "people": User.objects.order_by("-is_active", "-role", "username"),
        "roles": Role.choices,
        "invites": invites,
        "new_link": link and {"is_for": link[0], "address": _address(request, link[1])},
    }
    return render(request, "people/settings/people.html", context)


def _address(request: PersonRequest, token: str) -> str:
    return request.build_absolute_uri(reverse("join", args=[token]))


@get_or_post("settings/people/invite/", Permission.ADMINISTER)
def person_invite(request: PersonRequest) -> HttpResponse:
    form = RoleForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            made = Invite.make(role=form.cleaned_data["role"], by=request.user)
            AuditEntry.note(request.user, "invite", made[0])
        return _page(request, link=made)
    return render_form(request, "people/settings/invite.html", {"form": form})


@post("settings/invites/<int:pk>/end/", Permission.ADMINISTER)
def invite_end(request: PersonRequest, pk: int) -> HttpResponse:
    invite = get_object_or_404(Invite, pk=pk)
    if Invite.objects.filter(pk=pk).end():
        AuditEntry.note(request.user, "end invite", invite)
        messages.success(request, f"The link for {invite} has ended.")
    else:
        messages.info(request, f"The link for {invite} was used or over already.")
    return redirect("settings_people")


@post("settings/people/<int:pk>/reset/", Permission.ADMINISTER)
def person_reset(request: PersonRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    if not person.is_active:
        messages.error(request, f"{person} is disabled. Enable the account first.")
        return redirect("settings_people")
    with transaction.atomic():
        made = Invite.make(role=Role(person.role), by=request.user, person=person)
        AuditEntry.note(request.user, "reset link", person)
    return _page(request, link=made)


@post("settings/people/<int:pk>/role/", Permission.ADMINISTER)
def person_role(request: PersonRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    form = RoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, NO_ROLE)
        return redirect("settings_people")
    role: Role = form.cleaned_data["role"]
    with transaction.atomic():
        changed = User.objects.change(pk, role=role)
        if changed:
            AuditEntry.note(
                request.user, "change role", person, old=Role(person.role).label, new=role.label
            )
            if role != Role.ADMIN:
                _end_links(Q(created_by=person))
    if changed:
        events.publish_person_change(pk)
        messages.success(request, f"{person} is now {role.with_article}.")
    else:
        messages.error(request, LAST_ADMIN.format(person))
    return redirect("settings_people")


@post("settings/people/<int:pk>/active/", Permission.ADMINISTER)
def person_active(request: PersonRequest, pk: int) -> HttpResponse:
    """Disable a person, or let a disabled one in again, as the form says."""
    person = get_object_or_404(User, pk=pk)
    enables = "yes" in (request.POST.get("active"), request.GET.get("active"))
    with transaction.atomic():
        changed = User.objects.change(pk, is_active=enables)
        if changed:
            AuditEntry.note(request.user, "enable person" if enables else "disable person", person)
            if not enables:
                _end_links(Q(person=person) | Q(created_by=person))
    if changed:
        events.publish_person_change(pk)
        done = "may log in again" if enables else "is disabled; their sessions have ended"
        undo = "" if enables else reverse("person_active", query={"active": "yes"}, args=[pk])
        messages.success(request, f"{person} {done}.", extra_tags=undo)
    else:
        messages.error(request, LAST_ADMIN.format(person))
    return redirect("settings_people")


def _end_links(which: Q) -> None:
    """Else somebody who is shown out keeps a link to come back by."""
    Invite.objects.filter(which).end()


PER_PAGE = 100
# What actions of a kind begin with; all others are changes.
KINDS = {
    "starts": ("start", "stop", "restart", "keep running", "let requests", "give up waiting"),
    "people": (
        "invite", "end invite", "join", "change role", "change password", "reset", "enable person",
        "disable person",
    ),
    "keys": ("make key", "revoke key"),
}  # fmt: skip
TITLES = {"": "All", "starts": "Starts", "changes": "Changes", "people": "People", "keys": "Keys"}
NOBODY = "inferdash"  # who has done what no person did


@dataclass(frozen=True, kw_only=True)
class ActivityRow:
    entry: AuditEntry
    kind: str
    did: str  # in the past tense, before what it was done to
    more: str  # "on milo, version 3"
    server: str  # its slug, where the subject is one that is there


@dataclass(frozen=True, kw_only=True)
class ActivityDay:
    at: date
    title: str  # "" where the date says it
    rows: tuple[ActivityRow, ...]


@get("activity/", Permission.ADMINISTER)
def activity(request: PersonRequest) -> HttpResponse:
    page = Paginator(_filter_entries(request), PER_PAGE).get_page(request.GET.get("page"))
    asked = {name: request.GET.get(name, "") for name in ("q", "kind", "who")}
    context = {
        **asked,
        "page": page,
        "days": _list_days(page.object_list),
        "kinds": TITLES.items(),
        "people": [*User.objects.order_by("username").values_list("username", flat=True), NOBODY],
    }
    return render(request, "people/activity.html", context)


@get("activity.csv", Permission.ADMINISTER)
async def activity_csv(request: PersonRequest) -> StreamingHttpResponse:
    entries = await sync_to_async(_filter_entries)(request)  # which looks which actions there are
    head = ["when", "who", "what", "to what", "more"]
    return responses.send_table("inferdash-activity.csv", head, _rows(entries))


def _filter_entries(request: HttpRequest) -> QuerySet[AuditEntry]:
    found = AuditEntry.objects.select_related("by")
    for word in request.GET.get("q", "").split():
        found = found.filter(
            Q(by__username__icontains=word)
            | Q(action__icontains=word)
            | Q(action__in=_find_actions(word))
            | Q(subject__icontains=word)
            | Q(subject__in=Server.objects.filter(box__slug__icontains=word).values("slug"))
        )
    if who := request.GET.get("who"):
        found = found.filter(by=None) if who == NOBODY else found.filter(by__username=who)
    kind = request.GET.get("kind")
    if kind == "changes":
        return found.exclude(_begins(*KINDS))
    return found.filter(_begins(kind)) if kind in KINDS else found


def _find_actions(word: str) -> list[str]:
    """Those in whose words on the page it stands."""
    every = AuditEntry.objects.order_by().values_list("action", flat=True).distinct()
    return [each for each in every if word.casefold() in sentences.describe_action(each)]


def _begins(*kinds: str) -> Q:
    query = Q()
    for kind in kinds:
        for words in KINDS[kind]:
            query |= Q(action__startswith=words)
    return query


def _find_kind(action: str) -> str:
    return next((kind for kind, words in KINDS.items() if action.startswith(words)), "changes")


def _list_days(entries: Iterable[AuditEntry]) -> list[ActivityDay]:
    shown = list(entries)
    subjects = {entry.subject for entry in shown}
    boxes = dict(
        Server.objects.present().filter(slug__in=subjects).values_list("slug", "box__slug")
    )
    several = Box.objects.count() > 1
    today = timezone.localdate()
    titles = {today: "Today", today - timedelta(days=1): "Yesterday"}
    days = groupby(shown, lambda entry: timezone.localdate(entry.at))
    return [
        ActivityDay(
            at=at,
            title=titles.get(at, ""),
            rows=tuple(
                ActivityRow(
                    entry=entry,
                    kind=_find_kind(entry.action),
                    did=sentences.describe_action(entry.action),
                    more=sentences.describe_detail(
                        entry.action,
                        entry.detail,
                        box=boxes.get(entry.subject, "") if several else "",
                    ),
                    server=entry.subject if entry.subject in boxes else "",
                )
                for entry in those
            ),
        )
        for at, those in days
    ]


async def _rows(entries: QuerySet[AuditEntry]) -> AsyncIterator[list[str]]:
    async for entry in entries.aiterator():
        more = ", ".join(f"{key} {value}" for key, value in entry.detail.items())
        who = entry.by.username if entry.by else NOBODY
        yield [entry.at.isoformat(), who, entry.action, entry.subject, more]


GONE = 410


class _LinkIsOver(Exception):
    """Somebody else was faster."""


@serve_public("login/", "GET", "POST")
@sensitive_post_parameters("password")
def login(request: HttpRequest) -> HttpResponse:
    target = _safe_next(request)
    if request.user.is_authenticated:
        return redirect(target)
    form = LoginForm(request.POST or None, request=request)
    if request.method == "POST" and form.is_valid() and form.person is not None:
        log_in(request, form.person)
        # Sessions stand in the database, and nobody else sweeps out those that are over.
        with samples.unless_full():
            type(request.session).clear_expired()
        return redirect(target)
    return render(request, "people/login.html", {"form": form, "next": target})


@post("logout/", Permission.ACCOUNT)
def logout(request: PersonRequest) -> HttpResponse:
    pk = request.user.pk
    log_out(request)
    events.publish_person_change(pk)
    return redirect("login")


@serve_public("join/<str:token>/", "GET", "POST")
@sensitive_post_parameters("password", "again")
def join(request: HttpRequest, token: str) -> HttpResponse:
    invite = Invite.objects.for_token(token)
    if invite is None:
        return render(request, "people/link_over.html", status=GONE)
    typed = request.POST or None
    form = PasswordForm(typed, person=invite.person) if invite.person else JoinForm(typed)
    if request.method == "POST" and form.is_valid():
        try:
            person = _let_in(invite, form)
        except _LinkIsOver:
            return render(request, "people/link_over.html", status=GONE)
        except IntegrityError:
            form.add_error("username", NAME_TAKEN)
        else:
            log_in(request, person)
            events.publish_person_change(person.pk)
            # The first of all has seen nothing of the boxes yet.
            return redirect("dashboard" if User.objects.exclude(pk=person.pk).exists() else "found")
    return render(
        request,
        "people/join.html",
        {"form": form, "invite": invite, "role": Role(invite.role).label},
    )


def _let_in(invite: Invite, form: PasswordForm) -> User:
    """Make the person, or give them the new password. Raises _LinkIsOver."""
    with transaction.atomic():
        if not Invite.objects.use(invite):
            raise _LinkIsOver
        person = invite.person or User(username=form.cleaned_data["username"], role=invite.role)
        person.set_password(form.cleaned_data["password"])
        if invite.person:
            # Only this: the role may have changed since the link was opened.
            person.save(update_fields=["password"])
            LoginFailure.objects.open(person.username)
        else:
            person.save()
        AuditEntry.note(person, "reset password" if invite.person else "join", person)
    return person


@get_or_post("password/", Permission.ACCOUNT)
@sensitive_post_parameters("current", "password", "again")
def password(request: PersonRequest) -> HttpResponse:
    person = request.user
    form = OwnPasswordForm(request.POST or None, request=request, person=person)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            person.set_password(form.cleaned_data["password"])
            person.save(update_fields=["password"])
            AuditEntry.note(person, "change password", person)
        # Every other session of this person ends, this one goes on.
        update_session_auth_hash(request, person)
        events.publish_person_change(person.pk)
        messages.success(request, "Your password is changed. Your other sessions have ended.")
        return redirect("settings")
    return render(request, "people/password.html", {"form": form})


def _safe_next(request: HttpRequest) -> str:
    target = request.POST.get("next") or request.GET.get("next") or "/"
    is_ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    # What has no slash would be taken for the name of a view.
    return target if is_ours and target.startswith("/") else "/"
