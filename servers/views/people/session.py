"""In and out: login, logout, one's own password, and the one-time links that let people in."""

from django.contrib import messages
from django.contrib.auth import login as log_in
from django.contrib.auth import logout as log_out
from django.contrib.auth import update_session_auth_hash
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_post_parameters

from servers import events
from servers.forms.people import NAME_TAKEN, JoinForm, LoginForm, OwnPasswordForm, PasswordForm
from servers.models import AuditEntry, Invite, LoginFailure, Permission, Role, User
from servers.state import samples
from servers.views.access import PersonRequest, get_or_post, post, serve_public

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
