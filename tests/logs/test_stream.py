"""How what Docker sends becomes lines, and what becomes of a line that has no end yet."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.host.logs import LogStream

AT = "2026-11-21T08:00:00.000000001Z"
OUT, ERR = 1, 2

type Serve = Callable[[bytes], "OneReplyDocker"]


def frame(text: bytes, kind: int = OUT) -> bytes:
    body = f"{AT} ".encode() + text
    return struct.pack(">BxxxL", kind, len(body)) + body


class OneReplyDocker:
    """Answers one request with these bytes, and goes on listening until it is ended."""

    def __init__(self, path: Path, body: bytes) -> None:
        self.host = f"unix://{path}"
        self._body = body
        self._ends = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def log(self, *, follow: bool, has_terminal: bool = False) -> LogStream:
        return LogStream(self.host, "c", since="", follow=follow, has_terminal=has_terminal)

    def breaks_off(self) -> None:
        self._ends.set()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()
        self._listener.close()

    def _answer(self) -> None:
        client, _address = self._listener.accept()
        with client:
            client.recv(65536)
            client.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + self._body)
            self._ends.wait()


@pytest.fixture
def serve(short_path: Path) -> Iterator[Serve]:
    made: list[OneReplyDocker] = []

    def start(body: bytes) -> OneReplyDocker:
        made.append(OneReplyDocker(short_path / "docker.sock", body))
        return made[-1]

    yield start
    for each in made:
        each.close()


# The line on the other stream comes after the half one: whoever has it has read that, too.
HALF = frame(b"half a li") + frame(b"whole\n", ERR)
WHOLE = (AT, "e", b"whole")


@pytest.mark.parametrize("end", ["Docker breaks off", "we stop"])
def test_half_a_line_is_not_handed_on_when_following_ends(serve: Serve, end: str) -> None:
    """It would stand in the log beside the whole one, which is read after it."""
    docker = serve(HALF)
    stream = docker.log(follow=True)
    lines = iter(stream)
    assert next(lines) == WHOLE

    docker.breaks_off() if end == "Docker breaks off" else stream.close()

    assert list(lines) == []


@pytest.mark.parametrize("end", ["Docker breaks off", "we stop"])
def test_half_a_line_of_a_terminal_is_not_handed_on_either(serve: Serve, end: str) -> None:
    docker = serve(f"{AT} whole\r\n{AT} half a li".encode())
    stream = docker.log(follow=True, has_terminal=True)
    lines = iter(stream)
    assert next(lines) == (AT, "o", b"whole")

    docker.breaks_off() if end == "Docker breaks off" else stream.close()

    assert list(lines) == []


def test_what_a_killed_process_wrote_last_is_a_line_of_its_log(serve: Serve) -> None:
    docker = serve(HALF)
    docker.breaks_off()

    assert list(docker.log(follow=False)) == [WHOLE, (AT, "o", b"half a li")]


def test_so_it_is_on_a_terminal(serve: Serve) -> None:
    docker = serve(f"{AT} whole\r\n{AT} half a li".encode())
    docker.breaks_off()

    found = list(docker.log(follow=False, has_terminal=True))

    assert found == [(AT, "o", b"whole"), (AT, "o", b"half a li")]
