import asyncio
import html
import io
import json
import logging
import shlex
import sys
from typing import Any

import pytest
from django.test import Client

from inferdash.asgi import application
from inferdash.records import BoundedVisitors
from inferdash.urls import handler400, handler403
from tests import factories
from tests.security.visitors import viewer

assert handler400


assert handler403


# What anybody may send


def asgi(*bodies: bytes, **headers: str) -> tuple[int, int]:
    """The status of a POST of these pieces of a body, and how many of them were read."""
    pieces = list(bodies)
    status = 0

    async def receive() -> dict[str, Any]:
        if not pieces:  # the browser waits for its answer
            await asyncio.get_running_loop().create_future()
        body = pieces.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(pieces)}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/login/",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            *((name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()),
        ],
    }
    asyncio.run(application(scope, receive, send))  # type: ignore[arg-type]
    return status, len(bodies) - len(pieces)


def test_an_endless_body_is_not_written_to_disk(transactional_db: None) -> None:
    piece = b"x" * 1024 * 1024

    assert asgi(*[piece] * 100, content_type="multipart/form-data; boundary=x") == (413, 9)
    assert asgi(*[piece] * 100, content_length=str(2**40)) == (413, 0)
    assert asgi(*[piece] * 2, content_type="multipart/form-data; boundary=x") == (403, 2)


@pytest.mark.parametrize(
    ("address", "host", "status"),
    [
        ("/", "evil.example", 400),
        ("/%00", "localhost", 400),
        ("/profiles/new/", "localhost", 403),
        ("/servers/x/?run=" + "9" * 5000, "localhost", 404),
    ],
)
def test_what_a_visitor_does_wrong_leaves_no_traceback(
    address: str, host: str, status: int, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = logging.getLogger().handlers
    console = next(each for each in handlers if type(each) is logging.StreamHandler)
    # Another test's visitor may have had this minute's line.
    kept = [each for each in console.filters if not isinstance(each, BoundedVisitors)]
    monkeypatch.setattr(console, "filters", [*kept, BoundedVisitors()])
    factories.server(factories.box(), "x")
    log = io.StringIO()
    before = console.setStream(log)

    answer = viewer().get(address, headers={"host": host})

    console.setStream(before or sys.stderr)
    assert answer.status_code == status
    assert log.getvalue()
    assert "Traceback" not in log.getvalue()


def test_a_models_name_does_not_break_out_of_the_command_to_copy(client: Client) -> None:
    server = factories.server(factories.box())
    factories.run(server, served_name="x'; touch /tmp/hacked; '\"")

    page = html.unescape(client.get(f"/servers/{server.slug}/").content.decode())

    command = page.split('id="curl">')[1].split("</pre>")[0]
    said = json.loads(shlex.split(command)[-1])
    assert said["model"] == "x'; touch /tmp/hacked; '\""


def test_a_version_number_of_5000_digits_is_none(client: Client) -> None:
    profile = factories.server(factories.box()).profile

    answer = client.get(f"/profiles/{profile.slug}/versions/1/?against=" + "9" * 5000)

    assert answer.status_code == 200
