"""What browsers leave behind in the web process when they go, and what it knows of shorter logs."""

import json
import socket as sockets

import pytest

from tests.chat_stack import Stack, seeded
from tests.logs.test_log_socket import ask, fill, socket_of
from tests.waiting import PATIENCE
from tests.web_stack import WebStack


@pytest.fixture
def stack(web: WebStack) -> Stack:
    return seeded(web, 9)


def restore(stack: Stack, count: int) -> None:
    """The log becomes one of so many lines without a word, as when yesterday's database is back."""
    stack.shell(
        f"LogChunk.objects.filter(run={stack.run}).delete()\n"
        f"RunLog.objects.filter(run={stack.run}).update(lines=0)\n"
        f"records = [f'2026-11-21T08:00:00Z o line {{n}}'.encode() for n in range(1, {count + 1})]\n"
        f"LogChunk.objects.append({stack.run}, 0, records)"
    )


def test_a_browser_that_goes_while_it_is_sent_to_leaves_no_reading_behind(stack: Stack) -> None:
    restore(stack, 30_000)
    for asked in range(10):
        with socket_of(stack, stack.run) as socket:
            socket.recv(timeout=PATIENCE)
            socket.send(json.dumps({"tail": 30_000}))
            for _ in range(asked):
                socket.send(json.dumps({"from": 1, "limit": 1000}))
            socket.socket.shutdown(sockets.SHUT_RDWR)
    restore(stack, 5)

    with socket_of(stack, stack.run) as socket:
        assert json.loads(socket.recv(timeout=PATIENCE))["hello"]["lines"] == 5


def test_a_log_that_has_become_shorter_is_read_anew(stack: Stack) -> None:
    restore(stack, 3000)
    with socket_of(stack, stack.run) as socket:
        socket.recv(timeout=PATIENCE)
        assert ask(socket, tail=1)[0] == 3000
        restore(stack, 10)
        stack.shell(f"events.publish_log_growth({stack.run}, 10)")
        assert json.loads(socket.recv(timeout=PATIENCE)) == {"anew": True}
        with socket_of(stack, stack.run) as other:
            assert json.loads(other.recv(timeout=PATIENCE))["hello"]["lines"] == 10

        first, lines = ask(socket, tail=2)
        assert (first, [line[2] for line in lines]) == (9, ["line 9", "line 10"])
        fill(stack, 1, after=10)
        assert json.loads(socket.recv(timeout=PATIENCE))[0] == 11
