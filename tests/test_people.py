import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import AsyncClient, Client
from django.urls import reverse
from django.utils import timezone

from servers.models import Box, Entry, Invite, LoginFailure, Role, Secret, User
from tests import factories

PASSWORD = "a long enough one"
OTHER = "quite another phrase"


@pytest.fixture(autouse=True)
def quick_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def ada(db: None, own_redis: object) -> User:
    return User.objects.create_user("ada", password=PASSWORD, role=Role.ADMIN)


@pytest.fixture
def grace(ada: User) -> User:
    return User.objects.create_user("grace", password=PASSWORD, role=Role.EDITOR)


def as_(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def invited(**options: Any) -> str:
    said = io.StringIO()
    call_command("invite", base_url="http://rtx8:8470", stdout=said, **options)
    return said.getvalue().strip()


def path_of(link: str) -> str:
    assert link.startswith("http://rtx8:8470/join/")
    return link.removeprefix("http://rtx8:8470")


def join(client: Client, path: str, **typed: str) -> Any:
    return client.post(path, {"password": PASSWORD, "again": PASSWORD, **typed})


def log_in(client: Client, name: str = "ada", password: str = PASSWORD, **more: Any) -> Any:
    return client.post(reverse("login"), {"username": name, "password": password}, **more)


def said(response: Any) -> str:
    """The words of a page."""
    return " ".join(re.sub(r"<[^>]*>", " ", response.content.decode()).split())


# The first admin, and other links


def test_the_first_admin_joins_by_a_link_and_lands_on_the_dashboard(
    db: None, own_redis: object
) -> None:
    client = Client()
    path = path_of(invited(first_admin=True))

    assert "Join inferdash" in said(client.get(path))
    response = join(client, path, username="ada")

    assert response.status_code == 302
    assert response.headers["Location"] == "/"
    assert client.get("/").status_code == 200
    assert User.objects.get().role == Role.ADMIN


def test_there_is_no_first_admins_link_once_there_is_an_admin(ada: User) -> None:
    assert invited(first_admin=True) == ""


def test_there_is_one_again_when_the_only_admin_is_disabled(ada: User) -> None:
    User.objects.update(is_active=False)

    assert invited(first_admin=True)


def test_a_new_first_admins_link_ends_the_one_before(db: None) -> None:
    first, second = invited(first_admin=True), invited(first_admin=True)

    assert Client().get(path_of(first)).status_code == 410
    assert Client().get(path_of(second)).status_code == 200


def test_the_first_admins_link_ends_when_somebody_has_become_one(db: None) -> None:
    path = path_of(invited(first_admin=True))
    User.objects.create(username="ada", role=Role.ADMIN)

    assert Client().get(path).status_code == 410
    assert join(Client(), path, username="eve").status_code == 410
    assert not User.objects.filter(username="eve").exists()


def test_the_command_invites_with_a_role(db: None, own_redis: object) -> None:
    join(Client(), path_of(invited(role="editor")), username="grace")

    assert User.objects.get().role == Role.EDITOR


def test_a_link_works_once(db: None, own_redis: object) -> None:
    path = path_of(invited())
    join(Client(), path, username="ada")

    response = join(Client(), path, username="eve")

    assert response.status_code == 410
    assert "Ask an admin for a new one" in said(response)
    assert User.objects.count() == 1


def test_looking_at_a_link_does_not_use_it(db: None) -> None:
    path = path_of(invited())

    for _look in range(3):
        assert Client().get(path).status_code == 200


def test_a_link_is_over_after_three_days(db: None) -> None:
    path = path_of(invited())
    Invite.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert Client().get(path).status_code == 410


def test_the_token_of_a_link_is_not_in_the_database(db: None) -> None:
    token = path_of(invited()).split("/")[2]

    assert token not in str(list(Invite.objects.values()) + list(Entry.objects.values()))


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ({"username": "ADA"}, "Somebody has this name already"),
        ({"username": "a b"}, "Enter a valid username"),
        ({"username": "grace", "password": "short", "again": "short"}, "too short"),
        ({"username": "grace", "password": "password1234", "again": "password1234"}, "too common"),
        (
            {"username": "gracehopper", "password": "gracehopper1", "again": "gracehopper1"},
            "similar",
        ),
        ({"username": "grace", "again": "something else"}, "not the same password"),
    ],
)
def test_what_is_wrong_stands_beside_the_field(
    typed: dict[str, str], words: str, ada: User
) -> None:
    path = path_of(invited())

    response = join(Client(), path, **typed)

    assert response.status_code == 200
    assert words in said(response)
    assert User.objects.count() == 1
    assert Client().get(path).status_code == 200, "the link was used up by a mistake"


def test_a_reset_link_sets_a_new_password_and_ends_the_persons_sessions(
    ada: User, grace: User
) -> None:
    before = as_(grace)
    page = as_(ada).post(reverse("person_reset", args=[grace.pk]))
    path = re.search(r"/join/[\w-]+/", page.content.decode())
    assert path is not None

    response = join(Client(), path[0], password=OTHER, again=OTHER)

    assert response.status_code == 302
    assert before.get("/settings/").status_code == 302
    assert log_in(Client(), "grace", OTHER).status_code == 302
    grace.refresh_from_db()
    assert grace.role == Role.EDITOR


def test_a_reset_link_of_a_disabled_person_is_over(ada: User, grace: User) -> None:
    _invite, token = Invite.make(role=Role.EDITOR, by=ada, person=grace)
    User.objects.change(grace.pk, is_active=False)

    assert join(Client(), reverse("join", args=[token])).status_code == 410


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


def test_failures_that_are_over_leave_nothing_behind(ada: User) -> None:
    log_in(Client(), "nobody", "wrong")
    LoginFailure.objects.update(last_at=timezone.now() - timedelta(minutes=2))

    log_in(Client(), "ada", "wrong")

    assert [failure.username for failure in LoginFailure.objects.all()] == ["ada"]


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


# What admins do with people


def test_settings_shows_everybody_themselves_and_admins_the_rest(ada: User, grace: User) -> None:
    theirs, all_of_it = said(as_(grace).get("/settings/")), said(as_(ada).get("/settings/"))

    assert "grace, editor. Change your password" in theirs
    assert "Invite somebody as" not in theirs
    assert "Invite somebody as" in all_of_it


def test_an_admin_invites_with_a_role_and_sees_the_link_once(ada: User) -> None:
    client = as_(ada)

    page = client.post(reverse("person_invite"), {"role": Role.OPERATOR.value})

    link = re.search(r"http://testserver/join/[\w-]+/", page.content.decode())
    assert link is not None
    assert "A link for a new operator" in said(page)
    assert link[0] not in client.get("/settings/").content.decode()
    join(Client(), link[0].removeprefix("http://testserver"), username="lin")
    assert User.objects.get(username="lin").role == Role.OPERATOR


def test_an_admin_ends_a_link(ada: User) -> None:
    invite, token = Invite.make(role=Role.ADMIN, by=ada)

    response = as_(ada).post(reverse("invite_end", args=[invite.pk]), follow=True)

    assert "The link for a new admin has ended" in said(response)
    assert Client().get(reverse("join", args=[token])).status_code == 410


def test_a_role_counts_at_once(ada: User, grace: User) -> None:
    client = as_(grace)
    assert client.get("/profiles/new/").status_code == 200

    response = as_(ada).post(
        reverse("person_role", args=[grace.pk]), {"role": Role.VIEWER.value}, follow=True
    )

    assert "grace is now a viewer" in said(response)
    assert client.get("/profiles/new/").status_code == 403


def test_a_disabled_person_is_out_at_once_and_in_again_when_enabled(ada: User, grace: User) -> None:
    client = as_(grace)
    address = reverse("person_active", args=[grace.pk])

    as_(ada).post(address)
    assert client.get("/").status_code == 302
    assert "do not match" in said(log_in(Client(), "grace"))

    as_(ada).post(address, {"active": "yes"})
    assert log_in(Client(), "grace").status_code == 302


def test_disabling_twice_does_not_enable(ada: User, grace: User) -> None:
    for _click in range(2):
        as_(ada).post(reverse("person_active", args=[grace.pk]))

    assert not User.objects.get(pk=grace.pk).is_active


@pytest.mark.parametrize("change", ["person_role", "person_active"])
def test_the_last_active_admin_stays(change: str, ada: User) -> None:
    User.objects.create(username="old", role=Role.ADMIN, is_active=False)

    response = as_(ada).post(
        reverse(change, args=[ada.pk]), {"role": Role.EDITOR.value}, follow=True
    )

    assert "ada is the last active admin, so nothing was changed" in said(response)
    assert User.objects.admins().get() == ada


def test_whoever_is_shown_out_keeps_no_link_to_come_back_by(ada: User, grace: User) -> None:
    User.objects.change(grace.pk, role=Role.ADMIN)
    tokens = [
        Invite.make(role=Role.ADMIN, by=grace)[1],
        Invite.make(role=Role.ADMIN, by=ada, person=grace)[1],
    ]

    as_(ada).post(reverse("person_active", args=[grace.pk]))

    for token in tokens:
        assert Client().get(reverse("join", args=[token])).status_code == 410


def test_what_admins_do_is_noted(ada: User, grace: User) -> None:
    client = as_(ada)
    client.post(reverse("person_invite"), {"role": "2"})
    client.post(reverse("person_role", args=[grace.pk]), {"role": "1"})
    client.post(reverse("person_reset", args=[grace.pk]))
    client.post(reverse("person_active", args=[grace.pk]))
    client.post(reverse("secret_add"), {"name": "HF_TOKEN", "value": "hf_abcdefgh"})

    noted = [(entry.by, entry.action, entry.subject) for entry in Entry.objects.reverse()]

    assert noted == [
        (ada, "invite", "a new operator"),
        (ada, "change role", "grace"),
        (ada, "reset link", "grace"),
        (ada, "disable person", "grace"),
        (ada, "add secret", "HF_TOKEN"),
    ]
    assert "hf_abcdefgh" not in str(list(Entry.objects.values()))


# Secrets and boxes


def test_a_secret_goes_in_and_never_comes_out(ada: User) -> None:
    client = as_(ada)
    value = "hf_QwErTyUiOpAsDf"

    pages = [
        client.post(reverse("secret_add"), {"name": "HF_TOKEN", "value": value}, follow=True),
        client.post(reverse("secret_add"), {"name": "not a name", "value": value}),
        client.get("/settings/"),
        client.get("/activity/"),
    ]

    assert Secret.objects.get().reveal() == value
    assert value.encode() not in bytes(Secret.objects.get().sealed)
    assert "Write it as a variable" in said(pages[1])
    assert all(value not in page.content.decode() for page in pages)


@pytest.mark.parametrize("name", ["# x", "export HF_TOKEN", "A=B", "A\nB=c", "1A", " "])
def test_a_secrets_name_is_a_variables(name: str, ada: User) -> None:
    as_(ada).post(reverse("secret_add"), {"name": name, "value": "hf_abcdefgh"})

    assert not Secret.objects.exists()


def test_a_secret_too_short_to_be_masked_is_refused(ada: User) -> None:
    response = as_(ada).post(reverse("secret_add"), {"name": "PIN", "value": "1234567"})

    assert "at least 8 characters" in said(response)
    assert not Secret.objects.exists()


def test_a_secret_is_replaced(ada: User) -> None:
    secret = Secret.seal("HF_TOKEN", "hf_the_old_one", ada)

    as_(ada).post(reverse("secret_replace", args=[secret.pk]), {"value": "hf_the_new_one"})

    secret.refresh_from_db()
    assert secret.reveal() == "hf_the_new_one"


def test_a_secret_in_use_is_not_deleted(ada: User) -> None:
    used, idle = Secret.seal("HF_TOKEN", "hf_one_value", ada), Secret.seal("B", "hf_two_value", ada)
    box = factories.box("rtx8", hf_token=used)
    factories.server(box, "qwen3-8b", secret_env={"KEY": idle.pk})

    response = as_(ada).post(reverse("secret_delete", args=[used.pk]), follow=True)
    assert "HF_TOKEN is used by rtx8" in said(response)
    response = as_(ada).post(reverse("secret_delete", args=[idle.pk]), follow=True)
    assert "B is used by qwen3-8b" in said(response)
    assert Secret.objects.count() == 2

    Box.objects.update(hf_token=None)
    as_(ada).post(reverse("secret_delete", args=[used.pk]))
    assert Secret.objects.get() == idle


def test_a_boxs_settings_are_saved_and_its_facts_left_to_the_watcher(ada: User) -> None:
    box = factories.box("rtx8")
    token = Secret.seal("HF_TOKEN", "hf_one_value", ada)
    typed = {"rtx8-home": "/home/ada", "rtx8-hf_cache": "~/hf", "rtx8-hf_token": str(token.pk)}

    response = as_(ada).post(reverse("box_settings", args=["rtx8"]), typed, follow=True)

    assert "rtx8 is changed" in said(response)
    after = Box.objects.get()
    assert (after.hf_cache, after.hf_token, after.facts) == ("~/hf", token, box.facts)


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("home", "~", "must be an absolute path"),
        ("home", "ada", "must be an absolute path"),
        ("hf_cache", "$DATA/hf", "only $HOME is known"),
    ],
)
def test_a_boxs_folders_must_be_paths(field: str, text: str, words: str, ada: User) -> None:
    factories.box("rtx8")
    typed = {"rtx8-home": "/home/ada", "rtx8-hf_cache": "", f"rtx8-{field}": text}

    response = as_(ada).post(reverse("box_settings", args=["rtx8"]), typed)

    assert words in said(response)
    assert Box.objects.get().home == "/home/ada"


def test_settings_shows_what_the_worker_allows(ada: User) -> None:
    factories.box("rtx8")

    page = said(as_(ada).get("/settings/"))

    assert "mount_roots /home/ada, /mnt, /data privileged no" in page


# Activity


def test_activity_is_filtered_by_who_and_what(ada: User, grace: User) -> None:
    Entry.note(ada, "start server", "qwen3-8b")
    Entry.note(grace, "stop server", "glm-5", after=3)
    Entry.note(None, "invite", "a new admin")

    assert "glm-5" in said(as_(ada).get("/activity/", {"q": "grace stop"}))
    assert "qwen3-8b" not in said(as_(ada).get("/activity/", {"q": "grace stop"}))
    assert "Nothing that matches" in said(as_(ada).get("/activity/", {"q": "grace start"}))


@pytest.mark.asyncio
@pytest.mark.django_db(transaction=True)
async def test_activity_comes_as_csv_that_no_spreadsheet_runs(own_redis: object) -> None:
    ada = await User.objects.acreate(username="ada", role=Role.ADMIN)
    evil = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", " =1", "＝1+1", 'a "quoted", one', "two\nlines"]
    for subject in evil:
        await Entry.objects.acreate(by=ada, action="start server", subject=subject)
    client = AsyncClient()
    await client.aforce_login(ada)

    response: Any = await client.get("/activity.csv")
    text = b"".join([part async for part in response.streaming_content]).decode()

    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["when", "who", "what", "to what", "more"]
    cells = [row[3] for row in reversed(rows[1:])]
    assert cells == [f"'{each}" for each in evil[:7]] + evil[7:]
    assert response.headers["Content-Disposition"].startswith("attachment")
