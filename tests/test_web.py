"""The web server itself, before Django sees a request."""

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from inferdash.up.connections import MOST_UNFINISHED, BoundedHeads


async def length(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers with the number of bytes of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    answer = str(size).encode()
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """A connection to a server of `length`."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(length, http=BoundedHeads, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    with socket.create_connection(listening.getsockname()) as connected:
        connected.settimeout(30)
        yield connected
    server.should_exit = True
    thread.join()
    listening.close()


def sent_until_closed(connection: socket.socket, piece: bytes, most: int) -> int:
    sent = 0
    try:
        while sent < most:
            connection.sendall(piece)
            sent += len(piece)
    except OSError:
        pass
    return sent


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"GET / HTTP/1.1\r\nhost: x\r\nx: ", b"a"),
        (b"GET /", b"a"),
        (b"GET / HTTP/1.1\r\n", b"x: a\r\n"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x: a\r\n"),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;", b"a"),
    ],
)
def test_a_head_without_end_ends_the_connection(
    begin: bytes, piece: bytes, connection: socket.socket
) -> None:
    connection.sendall(begin)

    assert (
        sent_until_closed(connection, piece * 10_000, 100 * MOST_UNFINISHED) < 100 * MOST_UNFINISHED
    )


def test_long_bodies_one_after_another_are_taken(connection: socket.socket) -> None:
    request = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n" + b"b" * 3_000_000
    reader = threading.Thread(target=connection.sendall, args=[request * 3])
    reader.start()

    answers = b""
    while answers.count(b"\r\n\r\n3000000") < 3:
        piece = connection.recv(65536)
        assert piece, answers
        answers += piece
    reader.join()
