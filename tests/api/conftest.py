"""What tests of the API begin with: a box, a server, and keys."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from servers.models import Box, Key, Role, Server, User
from tests import factories
from tests.installation import Installation

type ClientOf = Callable[[Role], Client]


@pytest.fixture
def server(box: Box) -> Server:
    return factories.server(box, "qwen3-8b")


def with_key(person: User, role: Role = Role.ADMIN, **more: Any) -> Client:
    _key, token = Key.make(person, "laptop", role, expires_at=more.pop("expires_at", None))
    return Client(headers={"authorization": f"Bearer {token}"}, **more)


@pytest.fixture
def client_of() -> ClientOf:
    """A client with a key of somebody of this role."""

    def made(role: Role) -> Client:
        # Without a password: hashing one for every test would take most of the time.
        person, _new = User.objects.get_or_create(username=f"a-{role.label}", role=role)
        return with_key(person)

    return made


@pytest.fixture
def token(place: Installation) -> str:
    """An admin's key."""
    said = place.ask(
        "Key.make(User.objects.create_user('ana', role=Role.ADMIN), 'laptop', Role.ADMIN, "
        "expires_at=None)[1]"
    )
    return str(said)
