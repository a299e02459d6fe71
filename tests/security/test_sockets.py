from typing import Any

import pytest
from asgiref.sync import sync_to_async

from inferdash.urls import handler400, handler403
from servers.models import Role, User
from tests import factories
from tests.websocket import Socket, session_of

assert handler400


assert handler403


# Sockets: the Origin is the only thing that tells our page from another site's


@pytest.fixture
def session_key(transactional_db: None, own_redis: object) -> Any:
    person = User.objects.create(username="ada", role=Role.VIEWER)
    return lambda: session_of(person)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.example", "localhost"),
        ("http://evil.example", "evil.example"),  # DNS rebinding
        ("https://localhost", "localhost"),
        ("http://localhost:8471", "localhost:8470"),
        ("http://localhost", "localhost:8470"),
        ("http://localhost.evil.example", "localhost"),
        ("http://localhost@evil.example", "localhost"),
        ("null", "localhost"),
        ("", "localhost"),
        ("file://", "localhost"),
        (None, "localhost"),
        ("http://", ""),
    ],
)
async def test_a_socket_of_another_origin_is_refused(
    origin: str | None, host: str, session_key: Any
) -> None:
    socket = Socket("/ws/live/", session=await session_key(), origin=origin, host=host)

    assert not await socket.open()


@pytest.mark.asyncio
@pytest.mark.parametrize("host", ["localhost", "localhost:8470", "127.0.0.1:8470", "[::1]:8470"])
async def test_a_socket_of_the_same_origin_is_accepted(host: str, session_key: Any) -> None:
    socket = Socket("/ws/live/", session=await session_key(), origin=f"http://{host}", host=host)

    assert await socket.open()
    assert (await socket.hear())["type"] == "websocket.send"
    await socket.leave()


@pytest.mark.asyncio
async def test_behind_tls_the_origin_is_https(session_key: Any, settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    key = await session_key()

    def socket(origin: str) -> Socket:
        return Socket("/ws/live/", session=key, origin=origin, x_forwarded_proto="https")

    assert not await socket("http://localhost").open()
    behind_tls = socket("https://localhost")
    assert await behind_tls.open()
    await behind_tls.leave()


@pytest.mark.asyncio
async def test_without_a_proxy_nobody_can_claim_tls(session_key: Any) -> None:
    socket = Socket(
        "/ws/live/",
        session=await session_key(),
        origin="https://localhost",
        x_forwarded_proto="https",
    )

    assert not await socket.open()


@pytest.mark.asyncio
async def test_nobody_learns_which_sockets_there_are(
    transactional_db: None, own_redis: object
) -> None:
    socket = Socket("/ws/nothing/")

    assert await socket.open()
    assert await socket.hear_close() == 4401


@pytest.mark.asyncio
async def test_a_socket_that_does_not_exist_is_told_to_stay_away(session_key: Any) -> None:
    socket = Socket("/ws/nothing/", session=await session_key())

    assert await socket.open()
    assert await socket.hear_close() == 4404


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "wish",
    ["[" * 100_000, '{"from": 1' + "0" * 5000, "7", '"tail"', '["tail"]', '{"tail": -1}', ""],
)
async def test_nonsense_closes_a_logs_socket_without_a_fault(
    wish: str, session_key: Any, caplog: pytest.LogCaptureFixture
) -> None:
    run = await sync_to_async(lambda: factories.run(factories.server(factories.box())))()
    socket = Socket(f"/ws/runs/{run.pk}/log/", session=await session_key())
    assert await socket.open()

    await socket.say_text(wish)

    assert await socket.hear_close() == 4400
    assert "Traceback" not in caplog.text
