"""The address beside a warning agrees with it, and examples work from the reader's machine."""

from typing import Any

import pytest
from django.test import Client

from servers.contexts import pages
from servers.contexts.server_page import PublishedPort, find_published_port
from servers.models import Run
from tests import factories

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_redis")]


def run(**launch: Any) -> Run:
    server = factories.server(factories.box("rtx8"), **launch)
    return factories.run(server, port=8000)


def test_where_an_engine_is_reached(settings: Any) -> None:
    settings.BOX = "rtx8"
    made = run()
    cases: list[tuple[dict[str, Any], str, PublishedPort]] = [
        ({}, "rtx8.lan:8470", here("127.0.0.1:8000")),
        ({"host_address": "0.0.0.0"}, "rtx8.lan:8470", there("0.0.0.0:8000", "rtx8.lan")),
        ({"host_address": "0.0.0.0"}, "[fd00::8]:8470", there("0.0.0.0:8000", "[fd00::8]")),
        ({"host_address": "::"}, "rtx8.lan", there("[::]:8000", "rtx8.lan")),
        ({"host_address": "10.0.0.8"}, "rtx8.lan", there("10.0.0.8:8000", "10.0.0.8")),
        ({"network": "host", "flags": ("--host", "0.0.0.0")}, "a", there("0.0.0.0:8000", "a")),
        # Through a tunnel, or on the box itself: nobody knows which.
        ({"host_address": "0.0.0.0"}, "localhost:8470", here("0.0.0.0:8000", is_open=True)),
        ({"host_address": "0.0.0.0"}, "[", here("0.0.0.0:8000", is_open=True)),
    ]
    for launch, host, expected in cases:
        made.version.spec = made.version.spec | launch
        assert find_published_port(made, "rtx8", host) == expected, (launch, host)
        made.version.refresh_from_db()
    # Of another box, this page's name says nothing.
    settings.BOX = "desk"
    made.version.spec = made.version.spec | {"host_address": "0.0.0.0"}
    assert find_published_port(made, "rtx8", "desk.lan") == here("0.0.0.0:8000", is_open=True)
    made.version.spec = made.version.spec | {"host_address": "10.0.0.8"}
    made.address = "10.0.0.8"
    assert find_published_port(made, "rtx8", "desk.lan") == there("10.0.0.8:8000", "10.0.0.8")
    # A container's own address, of an engine that others started.
    made.address = "172.17.0.2"
    assert find_published_port(made, "rtx8", "desk.lan") == PublishedPort(
        port="172.17.0.2:8000", base="http://172.17.0.2:8000", box="rtx8"
    )


def here(port: str, *, is_open: bool = False) -> PublishedPort:
    return PublishedPort(port=port, base="http://127.0.0.1:8000", box="rtx8", is_open=is_open)


def there(port: str, name: str) -> PublishedPort:
    return PublishedPort(
        port=port, base=f"http://{name}:8000", box="rtx8", is_of_box=False, is_open=True
    )


def test_a_page_says_one_address_and_the_socket_the_same(settings: Any) -> None:
    settings.BOX, settings.ALLOWED_HOSTS = "rtx8", ["rtx8.lan", "localhost"]
    made = run(host_address="0.0.0.0")
    client = Client()
    ada = factories.person()
    client.force_login(ada)
    keys: set[tuple[str, int | None]] = {("server", made.server_id)}

    page = client.get("/servers/qwen3-8b/", headers={"host": "rtx8.lan:8470"}).content.decode()
    sent = pages.render(keys, ada, page="server", pk=made.server_id, host="rtx8.lan:8470")
    at_home = client.get("/servers/qwen3-8b/", headers={"host": "localhost"}).content.decode()
    card = client.get("/", headers={"host": "rtx8.lan"}).content.decode()

    for text in (page, sent):
        assert "Open to the network" in text
        assert "curl http://rtx8.lan:8000/v1/chat/completions" in text
        assert "rtx8.lan:8000" in text
        assert "127.0.0.1:8000" not in text
        assert "from any machine that reaches rtx8" in text
    assert "curl http://127.0.0.1:8000/v1/chat" in at_home
    assert "write the name by which it reaches rtx8 in place of 127.0.0.1" in at_home
    assert "0.0.0.0:8000" in card
    assert "127.0.0.1:8000" not in card

    made.version.spec = made.version.spec | {"host_address": "127.0.0.1"}
    made.version.save()
    alone = client.get("/servers/qwen3-8b/", headers={"host": "rtx8.lan:8470"}).content.decode()
    assert "from a shell on rtx8 only" in alone
    assert "curl http://127.0.0.1:8000/v1" in alone
