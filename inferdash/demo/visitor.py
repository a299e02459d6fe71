"""Logs everybody in who comes to the demo: there is nothing in it to protect."""

from collections.abc import Callable

from django.contrib.auth import get_user_model, login
from django.http import HttpRequest, HttpResponse

NAME = "ada"


def log_in(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware. Who logs out sees the log-in page, and is in again at the first page."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path == "/" and not request.user.is_authenticated:
            person = get_user_model()._default_manager.filter(username=NAME).first()
            if person is not None:
                login(request, person, backend="django.contrib.auth.backends.ModelBackend")
        return get_response(request)

    return middleware
