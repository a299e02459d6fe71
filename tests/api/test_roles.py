"""Every operation of the API, with every kind of key: a new one without a row fails."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from servers.models import Key, Role, StoredCheckpoint, StoredImage, User
from servers.views.api import api
from tests.access_rows import Things, made
from tests.api import rows
from tests.api.rows import OPERATIONS, Operation
from tests.cases import Cases

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]

JSON = "application/json"
UNKNOWN, ONLY_ASKS = "no key that opens", "a key that may use models only"
type Caller = tuple[str, Client, Role | str]


@pytest.fixture
def things() -> Things:
    found = made()
    stored = StoredCheckpoint.objects.get(pk=found["stored"])
    image = StoredImage.objects.get(pk=found["image"])
    return {**found, "model path": stored.path, "image id": image.image_id}


def callers() -> Iterator[Caller]:
    """Who, their client, and as which role they count, or what their key is."""
    yield "without a key", Client(), UNKNOWN
    yield "with a key that nobody has", with_token("ifd_" + "x" * 43), UNKNOWN
    over = timezone.now() - timedelta(seconds=1)
    yield "with a key that is over", key(over=over), UNKNOWN
    yield "with a revoked key", key(then=Key.objects.revoke), UNKNOWN
    yield "with a key of somebody disabled", key(then=disable), UNKNOWN
    yield "with a key that only asks", key(only_asks=True), ONLY_ASKS
    for role in Role:
        yield f"with {role.label}'s key", key(role, role), role
    for role in (Role.CHAT, Role.VIEWER, Role.EDITOR):
        yield f"with admin's key for {role.label}s", key(Role.ADMIN, role), role
        yield f"with admin's key, {role.label} by now", key(then=lowered(role)), role


def with_token(token: str) -> Client:
    headers = {"authorization": f"Bearer {token}"}
    return Client(raise_request_exception=False, headers=headers)


def key(
    person: Role = Role.ADMIN,
    may: Role = Role.ADMIN,
    *,
    over: datetime | None = None,
    only_asks: bool = False,
    then: Callable[[Key], object] = lambda _key: None,
) -> Client:
    whose = User.objects.create(username=f"person-{User.objects.count()}", role=person)
    found, token = Key.make(whose, "laptop", may, expires_at=over, only_asks=only_asks)
    then(found)
    return with_token(token)


def disable(found: Key) -> None:
    User.objects.filter(pk=found.person_id).update(is_active=False)


def lowered(role: Role) -> Callable[[Key], object]:
    return lambda found: User.objects.filter(pk=found.person_id).update(role=role)


def ask(client: Client, operation: Operation, things: Things) -> tuple[Any, list[str]]:
    """The answer, and what it wrote; nothing of that stays: the next finds all there."""
    body = json.dumps(operation.body)
    address = operation.address(things)
    with transaction.atomic():
        with CaptureQueriesContext(connection) as queries:
            answer = client.generic(operation.method, address, body, content_type=JSON)
        transaction.set_rollback(True)
    written = [each["sql"] for each in queries if each["sql"].startswith(_WRITES)]
    # When a key was used last, is noted of one that may do less, too.
    return answer, [each for each in written if not each.startswith('UPDATE "servers_key" SET "us')]


_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")


def test_every_operation_has_a_row() -> None:
    found = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method in methods
    }

    missing = found - {each.name for each in OPERATIONS}
    assert not missing, f"Add an Operation of each to OPERATIONS in {rows.__file__}: {missing}"
    assert len(OPERATIONS) == len(found)


@pytest.mark.takes(30)
def test_every_operation_lets_in_whom_it_should(things: Things) -> None:
    with Cases() as cases:
        for who, client, counts_as in list(callers()):
            for operation in OPERATIONS:
                with cases.named(f"{operation.name} {who}"):
                    answer, written = ask(client, operation, things)

                    if isinstance(counts_as, Role) and operation.needs in counts_as.permissions:
                        # 409: it was understood, and cannot be done as things are.
                        assert answer.status_code in (200, 201, 202, 204, 409), answer.content
                        continue
                    assert answer.status_code == (401 if counts_as is UNKNOWN else 403)
                    assert answer.json()["error"]["message"]
                    assert written == []


def test_a_browsers_cookie_opens_no_operation(things: Things) -> None:
    """Else any page that somebody has open could act in their name."""
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create(username="grace", role=Role.ADMIN))
    with Cases() as cases:
        for operation in OPERATIONS:
            with cases.named(operation.name):
                answer, written = ask(client, operation, things)
                assert (answer.status_code, written) == (401, [])
