"""Keys: what they open, what they never open, and how they end."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from servers.gateway.callers import Callers, Refusal
from servers.models import AuditEntry, Key, Role
from servers.models.people.key import PREFIX, digest_of
from tests import factories
from tests.api.conftest import ClientOf, with_key

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


def status(client: Client, path: str = "/api/v1/servers") -> int:
    return client.get(path).status_code


def test_a_key_is_hashed_and_shown_once() -> None:
    ada = factories.log_in(factories.person())
    page = ada.post("/keys/", {"name": "my laptop", "role": "2", "lives": "30"})
    text = page.content.decode()
    key = Key.objects.get()
    token = next(word for word in text.replace("<", " ").replace(">", " ").split()
                 if word.startswith(PREFIX) and len(word) > 40)  # fmt: skip
    assert (key.digest, key.role) == (digest_of(token), Role.OPERATOR)
    assert token[20:] not in str(vars(key))
    assert key.expires_at is not None
    assert timedelta(days=29) < key.expires_at - timezone.now() < timedelta(days=31)
    assert token not in ada.get("/keys/").content.decode()
    assert status(Client(headers={"authorization": f"Bearer {token}"})) == 200
    assert AuditEntry.objects.filter(action="make key").exists()


def test_a_key_keeps_which_models_it_may_ask_and_how_often() -> None:
    ada = factories.log_in(factories.person())
    said = {"name": "eval", "role": "2", "lives": "30"}
    wrong = ada.post("/keys/", {**said, "requests_per_minute": "0"}).content.decode()
    assert "greater than or equal to 1" in wrong
    assert not Key.objects.exists()

    limits = {"models_allowed": "glm-5, qwen3-8b glm-5", "requests_per_minute": "30"}
    page = ada.post("/keys/", {**said, **limits}).content.decode()
    key = Key.objects.get()
    assert (key.models_allowed, key.requests_per_minute) == (["glm-5", "qwen3-8b"], 30)
    assert "only glm-5, qwen3-8b" in page
    assert "30/min" in page


def test_a_new_key_has_the_least_right_unless_more_is_chosen() -> None:
    ada = factories.log_in(factories.person())
    asks = '<option value="0" selected>use models only'
    page = ada.get("/keys/new/").content.decode()
    assert asks in page
    assert '<option value="90" selected>in 90 days' in page
    assert '<option value="4">do what admins may' in page

    said = {"name": "Open WebUI", "role": "0", "lives": "30", "models_allowed": "glm-5"}
    page = ada.post("/keys/", {**said, "requests_per_minute": "9"}).content.decode()
    key = Key.objects.get()
    assert (key.only_asks, key.role) == (True, Role.OPERATOR)
    assert (key.models_allowed, key.requests_per_minute) == (["glm-5"], 9)
    assert "http://testserver/v1" in page
    assert "inferdash.pyz" not in page
    assert '<td class="nowrap">use models only' in page
    assert AuditEntry.objects.get(action="make key").detail == {"may": "use models only"}


def test_who_may_not_ask_models_makes_no_key_for_that() -> None:
    page = factories.log_in(factories.person("vic", Role.VIEWER))
    shown = page.get("/keys/new/").content.decode()
    assert "use models only" not in shown
    assert '<option value="1" selected>' in shown
    said = page.post("/keys/", {"name": "x", "role": "0", "lives": "30"}).content.decode()
    assert "Select a valid choice" in said
    assert not Key.objects.exists()


def test_without_a_key_nothing_opens() -> None:
    ada = factories.person()
    logged_in = factories.log_in(ada)
    for client in (
        Client(),
        logged_in,  # a browser's cookie would let any page of the web act in ada's name
        Client(headers={"authorization": "Bearer ifd_wrong"}),
        Client(headers={"authorization": "Bearer "}),
        Client(headers={"authorization": "Basic YWRhOmFkYQ=="}),
    ):
        answer = client.get("/api/v1/servers")
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "unauthorized"
        assert answer["WWW-Authenticate"] == "Bearer"
        assert client.get("/api/v1/nothing").status_code in (401, 404)


def test_a_key_ends_when_it_is_revoked_over_or_its_person_disabled() -> None:
    ada, eva = factories.person(), factories.person("eva", Role.EDITOR)
    client = with_key(eva, enforce_csrf_checks=True)
    key = Key.objects.get()
    assert key.used_at is None
    assert status(client) == 200
    assert client.generic("POST", "/api/v1/servers/none/start").status_code == 404
    key.refresh_from_db()
    assert key.used_at is not None

    page = factories.log_in(ada)
    assert "laptop" in page.get("/keys/").content.decode()
    assert page.post(f"/keys/{key.pk}/revoke/").status_code == 302
    assert status(client) == 401

    over = with_key(eva, expires_at=timezone.now() - timedelta(seconds=1))
    assert status(over) == 401

    third = with_key(eva)
    eva.is_active = False
    eva.save()
    assert status(third) == 401


def test_nobody_revokes_or_sees_somebody_elses_key() -> None:
    with_key(factories.person())
    page = factories.log_in(factories.person("eva", Role.EDITOR))
    key = Key.objects.get()
    assert page.post(f"/keys/{key.pk}/revoke/").status_code == 404
    assert "ifd_" + key.start[4:] not in page.get("/keys/").content.decode()


def test_a_key_may_do_no_more_than_its_person_and_than_was_said(client_of: ClientOf) -> None:
    server = factories.server(factories.box())
    start = f"/api/v1/servers/{server.slug}/start"
    assert client_of(Role.VIEWER).generic("POST", start).status_code == 403

    eva = factories.person("eva", Role.EDITOR)
    narrow = with_key(eva, Role.VIEWER)
    answer = narrow.generic("POST", start)
    assert answer.status_code == 403
    assert "what viewers may" in answer.json()["error"]["message"]

    wide = with_key(eva, Role.ADMIN)
    assert Key.objects.order_by("-pk")[0].role == Role.EDITOR
    eva.role = Role.VIEWER
    eva.save()
    assert wide.generic("POST", start).status_code == 403


def test_the_form_offers_no_higher_role_than_ones_own() -> None:
    page = factories.log_in(factories.person("vic", Role.VIEWER))
    assert "admins may" not in page.get("/keys/new/").content.decode()
    text = page.post("/keys/", {"name": "x", "role": "4", "lives": "30"}).content.decode()
    assert "Select a valid choice" in text
    assert not Key.objects.exists()


@pytest.mark.parametrize("kind", ["of a role", "only asks"])
def test_a_key_falls_with_its_person(kind: str) -> None:
    """Whoever keeps the key of a higher role does nothing with it that the person may not."""
    server = factories.server(factories.box())
    eva = factories.person("eva", Role.ADMIN)
    _key, token = Key.make(eva, "x", Role.ADMIN, expires_at=None, only_asks=kind == "only asks")
    headers = [(b"authorization", f"Bearer {token}".encode())]
    client = Client(headers={"authorization": f"Bearer {token}"})
    assert async_to_sync(Callers().identify)(headers).person == eva.pk

    ada = factories.log_in(factories.person())
    ada.post(reverse("person_role", args=[eva.pk]), {"role": Role.VIEWER.value})

    for path in (f"servers/{server.slug}/start", f"servers/{server.slug}/stop", "downloads"):
        answer = client.generic("POST", f"/api/v1/{path}", "{}", content_type="application/json")
        assert answer.status_code == 403, path
    with pytest.raises(Refusal):
        async_to_sync(Callers().identify)(headers)


def test_a_person_is_told_of_a_key_that_ends_soon() -> None:
    ada, eva = factories.person(), factories.person("eva", Role.EDITOR)
    now = timezone.now()
    for name, days in (("nightly", 13), ("laptop", 15), ("old", -1)):
        Key.make(ada, name, Role.VIEWER, expires_at=now + timedelta(days=days))
    Key.objects.revoke(Key.make(ada, "gone", Role.VIEWER, expires_at=now + timedelta(days=1))[0])
    shown = {}
    for person in (ada, eva):
        client = factories.log_in(person)
        shown[person.username] = client.get("/").content.decode()
        keys = client.get("/keys/").content.decode()
        assert keys.count("ends soon") == (person == ada)
    assert "What uses this key of yours stops then" not in shown["eva"]
    assert shown["ada"].count("What uses this key of yours stops then") == 1
    assert ">nightly</a>" in shown["ada"]
