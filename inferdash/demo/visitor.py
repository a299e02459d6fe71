"""Automatic login of the demo's visitors."""

from collections.abc import Callable

from django.contrib.auth import get_user_model, login
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

NAME = "ada"


def log_in(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware. Who logs out sees the log-in page, and is in again at any other.

    Programs are not logged in: what they are told without a key is what they would be told.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        if _opens_a_page(request) and not request.user.is_authenticated:
            person = get_user_model()._default_manager.filter(username=NAME).first()
            if person is not None:
                login(request, person, backend="django.contrib.auth.backends.ModelBackend")
        return get_response(request)

    return middleware


def _opens_a_page(request: HttpRequest) -> bool:
    if request.method != "GET" or request.path == reverse("login"):
        return False
    return request.path == "/" or "text/html" in request.headers.get("Accept", "")
