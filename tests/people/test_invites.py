import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from servers.models import AuditEntry, Invite, Role, User
from tests.people.desk import OTHER, as_, join, log_in, said


def invited(**options: Any) -> str:
    said = io.StringIO()
    call_command("invite", base_url="http://rtx8:8470", stdout=said, **options)
    return said.getvalue().strip()


def path_of(link: str) -> str:
    assert link.startswith("http://rtx8:8470/join/")
    return link.removeprefix("http://rtx8:8470")


# The first admin, and other links


def test_the_first_admin_joins_by_a_link_and_lands_on_what_was_found(
    db: None, own_redis: object
) -> None:
    client = Client()
    path = path_of(invited(first_admin=True))

    assert "Join inferdash" in said(client.get(path))
    response = join(client, path, username="ada")

    assert response.status_code == 302
    assert response.headers["Location"] == "/found/"
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

    assert token not in str(list(Invite.objects.values()) + list(AuditEntry.objects.values()))


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
