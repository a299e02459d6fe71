"""Ports for what a test starts: nobody else's, from before it is started until the tests end."""

import os
import socket
from collections.abc import Iterator

from tests.waiting import PATIENCE

# Above the engines' ports of the tests (conftest.own_ports), and below those that the kernel
# gives to whoever asks for any (32768 and up): a connection of somebody else's cannot take one
# between the look at it and its use.
FIRST = 20_000
EACH = 750  # of one process of tests
PROCESSES = 16


def free_port() -> int:
    """A port that can be bound, and that no other test is given as long as this process lives."""
    return next(_free)


def answers(port: int) -> bool:
    """Whether somebody takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def _candidates() -> Iterator[int]:
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = FIRST + process % PROCESSES * EACH
    yield from range(first, first + EACH)


def _open(candidates: Iterator[int]) -> Iterator[int]:
    for port in candidates:
        if _hold(port) and _can_be_bound(port):
            yield port
    raise AssertionError("Every port of this process of tests is taken.")


def _hold(port: int) -> bool:
    """Other processes, as of tests of another checkout, may look at the same ports just now."""
    holder = socket.socket(socket.AF_UNIX)
    try:
        holder.bind(f"\0inferdash-test-port-{port}")
    except OSError:
        holder.close()
        return False
    holder.detach()  # open until the kernel closes it with this process, however that ends
    return True


def _can_be_bound(port: int) -> bool:
    try:
        with socket.create_server(("", port)):
            return True
    except OSError:
        return False


_free = _open(_candidates())
