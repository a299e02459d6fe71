"""Keys that may use models only: each door but the gateway's stays shut."""

import pytest
from asgiref.sync import sync_to_async
from django.test import Client
from django.urls import reverse

from servers.models import Key, Role
from servers.routing import websocket_urlpatterns
from tests import factories
from tests.access_rows import PUBLIC, ROWS, SOCKETS, Things, made
from tests.websocket import Socket


def key_of_an_admin() -> str:
    person = factories.person("otto", Role.ADMIN)
    return Key.make(person, "chat program", Role.ADMIN, expires_at=None, only_asks=True)[1]


def with_it() -> Client:
    return Client(headers={"authorization": f"Bearer {key_of_an_admin()}"})


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_the_api_says_what_to_use_instead() -> None:
    """That every operation is shut, tests/api/test_roles.py says."""
    answer = with_it().get("/api/v1/servers")

    assert answer.status_code == 403
    error = answer.json()["error"]
    assert error["code"] == "forbidden"
    assert "may use models only" in error["message"]
    assert "page “Keys”" in error["advice"]


@pytest.fixture
def things(db: None, own_redis: object) -> Things:
    return made()


def test_no_page_is_open(things: Things) -> None:
    client = with_it()
    for row in (row for row in ROWS if row.needs is not PUBLIC):
        send = client.post if row.method == "post" else client.get

        answer = send(reverse(row.name, args=[things[key] for key in row.args]), row.data)

        assert answer.status_code == 302, row
        assert answer.headers["Location"].startswith("/login/"), row


@pytest.mark.django_db
@pytest.mark.usefixtures("own_redis")
def test_metrics_are_shut() -> None:
    client = with_it()
    assert client.get("/metrics").status_code == 404, "there is no key for them"

    Key.make(factories.person("pia"), "prometheus", Role.VIEWER, expires_at=None)
    assert client.get("/metrics").status_code == 401


@pytest.mark.asyncio
@pytest.mark.parametrize("pattern", [str(each.pattern) for each in websocket_urlpatterns])
@pytest.mark.parametrize("header", ["authorization", "x_api_key"])
async def test_no_socket_is_open(
    pattern: str, header: str, transactional_db: None, own_redis: object
) -> None:
    token = await sync_to_async(key_of_an_admin)()
    said = f"Bearer {token}" if header == "authorization" else token
    socket = Socket(SOCKETS[pattern][0].format(run=1), **{header: said})

    assert await socket.open()
    assert await socket.hear_close() == 4401
