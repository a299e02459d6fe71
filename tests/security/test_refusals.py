from urllib.parse import quote

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client, RequestFactory

from inferdash.urls import handler400, handler403
from tests.security.visitors import viewer

assert handler400


assert handler403


# What a refusal says


def test_a_403_says_which_role_is_missing_and_who_gives_it(client: Client) -> None:
    page = viewer().get("/profiles/new/")

    assert page.status_code == 403
    assert b"This needs the role editor; you are viewer." in page.content
    assert b"An admin can change that under Settings." in page.content


def test_a_button_gets_its_refusal_as_a_sentence(client: Client) -> None:
    response = viewer().post("/servers/any/start/", headers={"HX-Request": "true"})

    assert response.status_code == 403
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert response.content.decode().startswith("This needs the role operator; you are viewer.")


def test_a_403_without_words_still_says_something() -> None:
    from servers.views.responses import forbidden

    response = forbidden(
        RequestFactory().get("/", headers={"HX-Request": "true"}), PermissionDenied()
    )

    assert response.content == b"Your role does not allow this."


def test_a_form_of_an_earlier_session_says_what_to_do(client: Client) -> None:
    strict = Client(enforce_csrf_checks=True)

    page, sentence = strict.post("/login/"), strict.post("/login/", headers={"HX-Request": "true"})

    assert page.status_code == sentence.status_code == 403
    assert b"Session expired, reload" in page.content
    assert sentence.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert b"Reload it" in sentence.content


def test_a_form_of_another_site_says_what_a_proxy_must_pass_on(client: Client) -> None:
    strict = Client(enforce_csrf_checks=True)

    response = strict.post("/login/", headers={"origin": "https://testserver"})

    assert response.status_code == 403
    assert b"X-Forwarded-Proto" in response.content


def test_an_unknown_host_name_says_what_to_set(client: Client) -> None:
    response = client.get("/", headers={"host": "rtx8.lan:8470"})

    assert response.status_code == 400
    assert b"INFERDASH_ALLOWED_HOSTS=rtx8.lan<" in response.content


def test_a_hostile_host_name_is_text(client: Client) -> None:
    response = client.get("/", headers={"host": "<script>alert(1)</script>"})

    assert response.status_code == 400
    assert b"<script>alert" not in response.content


# Nobody


def test_a_button_whose_session_is_over_leads_back_to_its_page(db: None) -> None:
    response = Client().post(
        "/servers/qwen/start/",
        headers={"HX-Request": "true", "HX-Current-URL": "http://testserver/servers/qwen/?run=3"},
    )

    assert response.headers["HX-Redirect"] == f"/login/?next={quote('/servers/qwen/?run=3')}"


def test_a_form_whose_session_is_over_leads_back_to_its_page(db: None) -> None:
    response = Client().post(
        "/settings/secrets/add/", headers={"referer": "http://testserver/settings/"}
    )

    assert response.headers["Location"] == "/login/?next=/settings/"


@pytest.mark.parametrize(
    "referer", ["", "http://evil.example/x", "http://testserver:81/x", "//testserver/x"]
)
def test_it_leads_nowhere_else(referer: str, db: None) -> None:
    response = Client().post("/logout/", headers={"referer": referer})

    assert response.headers["Location"] == "/login/?next=/"
