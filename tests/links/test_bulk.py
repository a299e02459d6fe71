"""The bundle on its way from the hub to a box."""

import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from servers.host.links.bulk import BulkError, BulkServer, fetch_bundle
from tests.ports import free_port

SIZE = 3 * 2**20 + 17
SECRET = "of the box"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Path]:
    """The bundle; `by` is the socket that ssh would carry to the hub."""
    bundle, port = tmp_path / "bundle", free_port()
    bundle.write_bytes(os.urandom(SIZE))
    server = BulkServer(port, lambda secret: bundle if secret == SECRET else None)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "by"))
        listening.listen()
        ends: list[socket.socket] = []
        threading.Thread(target=_carry, args=(listening, port, ends), daemon=True).start()
        yield bundle
        server.close()
        for each in ends:
            each.close()


def _carry(listening: socket.socket, port: int, ends: list[socket.socket]) -> None:
    with suppress(OSError):
        while True:
            near, _ = listening.accept()
            far = socket.create_connection(("127.0.0.1", port))
            ends += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while piece := one.recv(65536):
            other.sendall(piece)
        other.shutdown(socket.SHUT_WR)


@pytest.fixture
def fetch(hub: Path, tmp_path: Path) -> Callable[..., list[int]]:
    def fetch(**other: str) -> list[int]:
        """The percents that were told."""
        told: list[int] = []
        digest = hashlib.sha256(hub.read_bytes()).hexdigest()
        words = {"secret": SECRET, "digest": digest} | other
        fetch_bundle(tmp_path / "to", by=tmp_path / "by", size=SIZE, tell=told.append, **words)
        return told

    return fetch


def test_all_of_it_comes_and_what_is_there_is_not_fetched_again(
    hub: Path, fetch: Callable[..., list[int]], tmp_path: Path
) -> None:
    told = fetch()

    assert (tmp_path / "to").read_bytes() == hub.read_bytes()
    assert told == sorted(set(told))
    assert told[-1] == 100
    assert fetch() == []


def test_it_goes_on_where_it_was_cut(
    hub: Path, fetch: Callable[..., list[int]], tmp_path: Path
) -> None:
    (tmp_path / "to").write_bytes(hub.read_bytes()[: 2 * 2**20])

    assert min(fetch()) > 66
    assert (tmp_path / "to").read_bytes() == hub.read_bytes()


def test_nobody_else_gets_it_and_another_one_is_not_kept(
    fetch: Callable[..., list[int]], tmp_path: Path
) -> None:
    with pytest.raises(BulkError, match="it answered 404"):
        fetch(secret="of another box")
    with pytest.raises(BulkError, match="another one than the hub has announced"):
        fetch(digest="0" * 64)
    assert not (tmp_path / "to").exists()
