"""Settings of the demo: every page says that it is one, and who comes is logged in."""

import os
from collections.abc import Callable
from pathlib import Path

from django.http import HttpRequest, HttpResponse

from inferdash.demo.disk import simulate_disk
from inferdash.settings import *  # noqa: F403 - all of them, but for what follows
from inferdash.settings import MIDDLEWARE as _USUAL

SIMULATED = True
WIRE = "hub"  # for its pages alone: no sshd runs, and no box can reach it
_AFTER = "django.contrib.auth.middleware.AuthenticationMiddleware"
_AT = _USUAL.index(_AFTER) + 1
MIDDLEWARE = [*_USUAL[:_AT], "inferdash.demo.settings.log_in", *_USUAL[_AT:]]
VISITOR = "ada"
if "INFERDASH_HOST_ROOT" in os.environ:
    simulate_disk(os.environ["INFERDASH_BOX"], Path(os.environ["INFERDASH_HOST_ROOT"]))


def log_in(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware. Who logs out sees the log-in page, and is in again at any other.

    Programs are not logged in: what they are told without a key is what they would be told.
    """
    # They look at settings, which are not there yet when this is imported.
    from django.contrib.auth import get_user_model, login

    def middleware(request: HttpRequest) -> HttpResponse:
        if _opens_a_page(request) and not request.user.is_authenticated:
            person = get_user_model()._default_manager.filter(username=VISITOR).first()
            if person is not None:
                login(request, person, backend="django.contrib.auth.backends.ModelBackend")
        return get_response(request)

    return middleware


def _opens_a_page(request: HttpRequest) -> bool:
    from django.urls import reverse

    if request.method != "GET" or request.path == reverse("login"):
        return False
    return request.path == "/" or "text/html" in request.headers.get("Accept", "")
