"""In and out: login, logout, and the one-time links that let people join or come back."""

from typing import cast

from django.contrib import messages
from django.contrib.auth import login as log_in
from django.contrib.auth import logout as log_out
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from servers.forms.people import JoinForm, LoginForm, PasswordForm
from servers.models import Entry, Invite, Role, User
from servers.views.access import allow


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def login(request: HttpRequest) -> HttpResponse:
    target = _safe_next(request)
    if request.user.is_authenticated:
        return redirect(target)
    form = LoginForm(request.POST or None, request=request)
    if request.method == "POST" and form.is_valid() and form.person is not None:
        log_in(request, form.person)
        return redirect(target)
    return render(request, "people/login.html", {"form": form, "next": target})


@require_POST
@allow(Role.VIEWER)
def logout(request: HttpRequest) -> HttpResponse:
    log_out(request)
    return redirect("login")


@login_not_required
@never_cache
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    invite = Invite.objects.for_token(token)
    if invite is None:
        return render(request, "people/link_over.html", status=410)
    form: PasswordForm = (
        PasswordForm(request.POST or None, person=invite.person)
        if invite.person
        else JoinForm(request.POST or None)
    )
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            if not Invite.objects.use(invite):
                return render(request, "people/link_over.html", status=410)
            person = invite.person or User(username=form.cleaned_data["username"], role=invite.role)
            person.set_password(form.cleaned_data["password"])
            person.save()
            Entry.note(person, "reset password" if invite.person else "join", person)
        log_in(request, person)
        return redirect("dashboard")
    role = Role(invite.role).label
    return render(request, "people/join.html", {"form": form, "invite": invite, "role": role})


@never_cache
@sensitive_post_parameters("old", "password", "again")
@require_http_methods(["GET", "POST"])
@allow(Role.VIEWER)
def password(request: HttpRequest) -> HttpResponse:
    person = cast(User, request.user)
    form = PasswordForm(request.POST or None, person=person)
    if request.method == "POST" and form.is_valid():
        person.set_password(form.cleaned_data["password"])
        person.save()
        # Every other session of this person ends, this one goes on.
        update_session_auth_hash(request, person)
        Entry.note(person, "change password", person)
        messages.success(request, "Your password is changed; other sessions have ended.")
        return redirect("dashboard")
    return render(request, "people/password.html", {"form": form})


def _safe_next(request: HttpRequest) -> str:
    target = request.POST.get("next") or request.GET.get("next") or "/"
    is_ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return target if is_ours else "/"
