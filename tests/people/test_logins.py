import io
import re
from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from servers.models import Invite, LoginFailure, Role, User
from servers.models.people.user import NAME_LOCK_AFTER, NAME_LOCKED_FOR
from tests.people.desk import OTHER, PASSWORD, as_, join, log_in, said

# In and out


def test_a_name_may_be_typed_in_any_case(ada: User) -> None:
    assert log_in(Client(), "ADA").status_code == 302


def test_after_the_login_one_is_where_one_wanted_to_be(ada: User) -> None:
    client = Client()

    refused = client.get("/profiles/?q=qwen")
    assert refused.headers["Location"] == "/login/?next=/profiles/%3Fq%3Dqwen"
    page = client.get(refused.headers["Location"])
    assert 'value="/profiles/?q=qwen"' in page.content.decode()
    response = client.post(
        "/login/", {"username": "ada", "password": PASSWORD, "next": "/profiles/?q=qwen"}
    )
    assert response.headers["Location"] == "/profiles/?q=qwen"


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "///evil.example",
        "\x00//evil.example",
        "http://testserver@evil.example/",
        "profiles/",
        "-1",
    ],
)
def test_a_login_does_not_lead_to_another_site(target: str, ada: User) -> None:
    client = Client()

    response = client.post("/login/", {"username": "ada", "password": PASSWORD, "next": target})

    assert response.headers["Location"] == "/"
    # An address with NUL in it is refused as a whole.
    assert client.get("/login/", {"next": target}).headers.get("Location", "/") == "/"


def test_five_failures_lock_a_name_from_an_address_for_a_minute(ada: User) -> None:
    client = Client()
    for _try in range(4):
        assert "do not match" in said(log_in(client, password="wrong"))

    assert re.search(r"Try again in (60|59) seconds", said(log_in(client, password="wrong")))
    assert "Five attempts failed" in said(log_in(client))
    assert "Five attempts failed" in said(log_in(client, "ADA"))

    assert log_in(Client(), REMOTE_ADDR="10.0.0.9").status_code == 302
    LoginFailure.objects.update(last_at=timezone.now() - timedelta(seconds=61))
    assert log_in(client).status_code == 302


def test_a_name_that_nobody_has_is_told_the_same(ada: User) -> None:
    def story(name: str) -> list[str]:
        client = Client()
        pages = [said(log_in(client, name, "wrong")) for _try in range(6)]
        return [re.sub(r"in \d+ second", "in some second", page) for page in pages]

    assert story("nobody") == story("ada")


def test_a_disabled_account_is_told_the_same_as_a_wrong_password(ada: User, grace: User) -> None:
    wrong = said(log_in(Client(), "grace", "wrong"))
    User.objects.change(grace.pk, is_active=False)

    assert said(log_in(Client(), "grace")) == wrong


def test_the_rest_of_an_ipv6_address_is_no_other_address(ada: User) -> None:
    for number in range(5):
        log_in(Client(), password="wrong", REMOTE_ADDR=f"2001:db8::{number}")

    assert LoginFailure.objects.seconds_locked("ada", "2001:db8::ffff")
    assert not LoginFailure.objects.seconds_locked("ada", "2001:db8:1::ffff")


@pytest.mark.parametrize("here", ["127.0.7.{}", "::ffff:127.0.7.{}"])
def test_the_addresses_of_loopback_are_one(here: str, ada: User) -> None:
    for number in range(5):
        log_in(Client(), password="wrong", REMOTE_ADDR=here.format(number))

    for other in ("127.0.9.9", "::1", "::ffff:127.0.0.1"):
        assert "Five attempts failed" in said(log_in(Client(), REMOTE_ADDR=other)), other
    assert log_in(Client(), REMOTE_ADDR="10.0.0.9").status_code == 302


def guess_from_everywhere(name: str) -> None:
    for number in range(NAME_LOCK_AFTER - 1):
        assert LoginFailure.objects.take_attempt(name, f"10.0.{number}.1")
    log_in(Client(), name, "wrong", REMOTE_ADDR="10.1.0.1")


def test_guesses_from_many_addresses_lock_the_name_everywhere(ada: User) -> None:
    guess_from_everywhere("ada")

    page = said(log_in(Client(), "ADA", REMOTE_ADDR="192.0.2.1"))

    assert "Too many attempts with this name have failed" in page
    assert re.search(r"Try again in (15|14) minutes", page)
    assert "ask an admin for a link" in page
    LoginFailure.objects.update(last_at=timezone.now() - NAME_LOCKED_FOR - timedelta(seconds=1))
    assert log_in(Client(), REMOTE_ADDR="192.0.2.1").status_code == 302
    assert not LoginFailure.objects.exists()


def test_a_name_that_nobody_has_is_locked_alike(ada: User) -> None:
    guess_from_everywhere("nobody")

    assert "Too many attempts with this name" in said(log_in(Client(), "nobody"))
    assert log_in(Client()).status_code == 302


def test_whoever_types_the_right_password_never_locks_a_name(ada: User) -> None:
    for number in range(NAME_LOCK_AFTER + 1):
        assert log_in(Client(), REMOTE_ADDR=f"10.0.{number}.1").status_code == 302


def test_what_a_pair_has_locked_does_not_count_against_the_name(ada: User) -> None:
    for _try in range(NAME_LOCK_AFTER + 5):
        log_in(Client(), password="wrong", REMOTE_ADDR="10.0.0.1")

    assert log_in(Client(), REMOTE_ADDR="10.0.0.2").status_code == 302


def test_a_link_of_an_admin_opens_a_locked_name(ada: User, grace: User) -> None:
    _invite, token = Invite.make(role=Role.EDITOR, by=ada, person=grace)
    guess_from_everywhere("grace")

    join(Client(), reverse("join", args=[token]), password=OTHER, again=OTHER)

    assert log_in(Client(), "grace", OTHER).status_code == 302


def test_the_last_admin_opens_a_locked_name_on_the_box(ada: User) -> None:
    guess_from_everywhere("ada")
    printed = io.StringIO()

    call_command("invite", person="ADA", base_url="http://testserver", stdout=printed)
    join(Client(), printed.getvalue().strip().removeprefix("http://testserver"))

    assert log_in(Client()).status_code == 302
    assert User.objects.get() == ada
    with pytest.raises(CommandError, match="Nobody is called “lin”"):
        call_command("invite", person="lin")
    User.objects.update(is_active=False)
    with pytest.raises(CommandError, match="ada is disabled"):
        call_command("invite", person="ada")


def test_known_and_unknown_names_cost_one_hash_each(
    ada: User, grace: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    encode = MD5PasswordHasher.encode

    def counted(self: MD5PasswordHasher, password: str, salt: str) -> str:
        made.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    User.objects.change(grace.pk, is_active=False)
    costs = {}
    for name in ("ada", "grace", "nobody"):
        made.clear()
        log_in(Client(), name, "wrong")
        costs[name] = len(made)

    assert costs == {"ada": 1, "grace": 1, "nobody": 1}


def test_failures_that_are_over_leave_nothing_behind(ada: User) -> None:
    log_in(Client(), "nobody", "wrong")
    LoginFailure.objects.update(last_at=timezone.now() - NAME_LOCKED_FOR * 2)

    log_in(Client(), "ada", "wrong")

    assert {failure.username for failure in LoginFailure.objects.all()} == {"ada"}


def test_a_login_sweeps_out_sessions_that_are_over(ada: User) -> None:
    Session.objects.create(session_key="old", session_data="", expire_date=timezone.now())

    log_in(Client())

    assert not Session.objects.filter(session_key="old").exists()


def test_after_a_logout_the_session_is_over(ada: User) -> None:
    client = as_(ada)
    key = client.cookies[settings.SESSION_COOKIE_NAME].value
    assert Session.objects.filter(session_key=key).exists()

    assert client.post("/logout/").headers["Location"] == "/login/"

    assert client.get("/").status_code == 302
    assert not Session.objects.filter(session_key=key).exists()


# One's own password


def test_a_new_password_needs_the_current_one(grace: User) -> None:
    client = as_(grace)
    typed = {"password": OTHER, "again": OTHER}

    assert "not your current password" in said(
        client.post("/password/", {"current": "wrong", **typed})
    )
    assert "This field is required" in said(client.post("/password/", typed))
    assert log_in(Client(), "grace").status_code == 302


def test_guessing_the_current_password_is_locked_like_a_login(grace: User) -> None:
    client = as_(grace)
    for _try in range(5):
        client.post("/password/", {"current": "wrong", "password": OTHER, "again": OTHER})

    response = client.post("/password/", {"current": PASSWORD, "password": OTHER, "again": OTHER})

    assert "Five attempts failed" in said(response)


def test_a_new_password_ends_the_other_sessions_and_keeps_this_one(grace: User) -> None:
    here, elsewhere = as_(grace), as_(grace)

    response = here.post("/password/", {"current": PASSWORD, "password": OTHER, "again": OTHER})

    assert response.headers["Location"] == "/settings/"
    assert "Your password is changed" in said(here.get("/settings/"))
    assert elsewhere.get("/settings/").status_code == 302
