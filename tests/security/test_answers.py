from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory

from inferdash.middleware import not_stored
from inferdash.urls import handler400, handler403

assert handler400


assert handler403


# Headers


@pytest.mark.urls("tests.security.urls")
@pytest.mark.parametrize(
    ("address", "status"),
    [("/", 200), ("/login/", 302), ("/nothing/", 404), ("/broken/", 500), ("/join/x/", 410)],
)
def test_every_answer_carries_the_headers(address: str, status: int, client: Client) -> None:
    response = client.get(address)

    assert response.status_code == status
    policy = dict(part.strip().split(" ", 1) for part in _policy(response).split(";"))
    assert policy == {
        "default-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "object-src": "'none'",
        "frame-ancestors": "'none'",
        "img-src": "'self' data:",
    }
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Referrer-Policy"] == "same-origin"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "no-store" in response.headers["Cache-Control"]


def test_a_refused_host_and_a_refused_form_carry_the_policy_too(client: Client) -> None:
    strict = Client(enforce_csrf_checks=True)

    for response in (client.get("/", headers={"host": "evil.example"}), strict.post("/login/")):
        assert "default-src 'self'" in _policy(response)
        assert "no-store" in response.headers["Cache-Control"]


def test_a_view_may_say_itself_how_long_an_answer_keeps() -> None:
    def view(request: Any) -> HttpResponse:
        return HttpResponse(headers={"Cache-Control": "private, max-age=60"})

    response = not_stored(view)(RequestFactory().get("/"))

    assert response.headers["Cache-Control"] == "private, max-age=60"


@pytest.mark.urls("tests.security.urls")
def test_a_fault_shows_no_traceback(client: Client) -> None:
    page = client.get("/broken/").content.decode()

    assert "Server error" in page
    assert "RuntimeError" not in page
    assert "hf_a_secret" not in page


def _policy(response: Any) -> str:
    return str(response.headers["Content-Security-Policy"])
