"""The relay of a box: whom it lets through, and what passes."""

import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from servers.host.links import relay
from tests.cases import Cases
from tests.links.wires import SECRET, RelayThread
from tests.ports import free_port
from tests.waiting import PATIENCE, wait_until

HEAD = f"Inferdash-Relay: {SECRET}\r\n\r\n"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """An engine that has not yet accepted anybody."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        yield listening


@pytest.fixture
def box(short_path: Path, listener: socket.socket) -> Iterator[RelayThread]:
    with RelayThread(short_path / "relay.sock", allowed={listener.getsockname()}) as box:
        yield box


def dial(box: RelayThread, said: bytes) -> socket.socket:
    hub = socket.socket(socket.AF_UNIX)
    hub.settimeout(PATIENCE)
    hub.connect(str(box.path))
    hub.sendall(said)
    return hub


def read_all(end: socket.socket) -> bytes:
    found = b""
    with suppress(ConnectionResetError):  # Unix says so where it had not read all that came
        while piece := end.recv(1 << 16):
            found += piece
    return found


def connect(box: RelayThread, listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    """The hub's end and the engine's."""
    port = listener.getsockname()[1]
    hub = dial(box, f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n{HEAD}".encode())
    engine, _address = listener.accept()
    engine.settimeout(PATIENCE)
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += hub.recv(1)
    assert answer == b"HTTP/1.1 200 OK\r\n\r\n"
    return hub, engine


def test_it_lets_the_hub_through_to_its_engines_alone(
    box: RelayThread, listener: socket.socket
) -> None:
    here, dead = f"127.0.0.1:{listener.getsockname()[1]}", free_port()
    assert box.allowed is not None
    box.allowed.add(("127.0.0.1", dead))
    long = "x" * relay.LONGEST_HEAD

    def answer(head: str) -> str:
        with closing(dial(box, head.encode())) as hub:
            return read_all(hub).decode().partition("\r\n")[0]

    cases = (
        (f"CONNECT {here} HTTP/1.1\r\nInferdash-Relay: another\r\n\r\n", "403 the secret is not this box's"),
        (f"CONNECT {here} HTTP/1.1\r\n\r\n", "403 the secret is not this box's"),
        (f"CONNECT 127.0.0.1:22 HTTP/1.1\r\n{HEAD}", "404 no engine of this box that the hub may reach"),
        (f"CONNECT [::1]:22 HTTP/1.1\r\n{HEAD}", "404 no engine of this box that the hub may reach"),
        (f"CONNECT localhost:22 HTTP/1.1\r\n{HEAD}", "400 that is no address"),
        (f"CONNECT 127.0.0.1:0 HTTP/1.1\r\n{HEAD}", "400 that is no port"),
        (f"GET / HTTP/1.1\r\n{HEAD}", "400 only CONNECT is understood"),
        (f"CONNECT {here} HTTP/1.1\r\nX: {long}", "400 the head is too long"),
        (f"CONNECT 127.0.0.1:{dead} HTTP/1.1\r\n{HEAD}", "502 refused"),
    )  # fmt: skip
    with Cases() as each:
        for head, expected in cases:
            with each.named(head):
                assert answer(head) == f"HTTP/1.1 {expected}"
    box.secret = ""
    assert " 403 " in answer(f"CONNECT {here} HTTP/1.1\r\nInferdash-Relay: \r\n\r\n")
    listener.settimeout(0)
    with pytest.raises(BlockingIOError):
        listener.accept()  # nobody has come to the engine
    assert stat.S_IMODE(box.path.stat().st_mode) == 0o600


def test_who_never_ends_a_head_and_who_is_one_too_many_is_let_go(
    short_path: Path, listener: socket.socket
) -> None:
    with RelayThread(short_path / "relay.sock", most=1) as box:
        hub, engine = connect(box, listener)
        port = listener.getsockname()[1]
        with closing(hub), closing(engine):
            asked = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n{HEAD}".encode()
            with closing(dial(box, asked)) as more:
                assert b" 503 " in read_all(more)
            box.relay.head_within = 0.01
            with closing(dial(box, b"CONNECT ")) as slow:
                assert b" 408 " in read_all(slow)


def test_bytes_go_both_ways_and_each_way_ends_by_itself(
    box: RelayThread, listener: socket.socket
) -> None:
    hub, engine = connect(box, listener)
    with closing(hub), closing(engine):
        hub.sendall(b"a question")
        hub.shutdown(socket.SHUT_WR)
        assert read_all(engine) == b"a question"
        # The way back is open: an answer may still come.
        answer = os.urandom(3_000_000)

        def tell() -> None:
            engine.sendall(answer)
            engine.close()

        threading.Thread(target=tell).start()
        assert read_all(hub) == answer
    wait_until(lambda: box.count_open() == 0, "the relay forgets who has gone")


def test_who_hangs_up_is_hung_up_on(box: RelayThread, listener: socket.socket) -> None:
    for number in range(2):
        hub, engine = connect(box, listener)
        ends = [hub, engine]
        ends.pop(number).close()
        with closing(ends[0]) as left:
            assert read_all(left) == b""
    wait_until(lambda: box.count_open() == 0, "the relay forgets who has gone")


def test_an_engine_waits_for_a_hub_that_reads_slowly(
    box: RelayThread, listener: socket.socket
) -> None:
    hub, engine = connect(box, listener)
    with closing(hub), closing(engine):
        engine.settimeout(0.0)
        sent, most = 0, 64 * 1024 * 1024
        blocked = 0
        while sent < most and blocked < 200:
            try:
                sent += engine.send(bytes(1 << 16))
                blocked = 0
            except BlockingIOError:
                blocked += 1
                box.count_open()  # a turn of the relay's loop
        assert sent < most, "it takes all that comes, and holds it in memory"
        engine.close()
        assert len(read_all(hub)) == sent
