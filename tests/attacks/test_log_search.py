"""Searches of a log by whoever means harm: each is answered or refused, and nothing of it goes on."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from servers.consumers import log_search
from servers.models import LogChunk, Role, Run, User
from servers.models.runs.run import RunState
from tests import factories
from tests.cases import Cases
from tests.logs.store import stamped
from tests.waiting import wait_until_async
from tests.websocket import Socket, session_of

LINE = b"x" * 200
COSTS, WRONG = "This pattern takes too long, near line 1.", "This is no regular expression"
TOO_LONG = "at most 500 characters"
# What is looked for, as a pattern or as a text, and the words of its refusal; None: it is answered.
PATTERN, TEXT = True, False
WISHES: list[tuple[bool, str, str | None]] = [
    (PATTERN, r"(x*)*\1y", COSTS),
    (PATTERN, "x{1,4294967295}y", "regular expression"),
    (PATTERN, "(" * 480, WRONG),
    (PATTERN, "[", WRONG),
    (PATTERN, "(?P<a>x)(?P<a>x)", WRONG),
    (PATTERN, r"\1", WRONG),
    (PATTERN, "(?<=x+)y", WRONG),
    (PATTERN, "(?z\x1b\ud83d)", WRONG),
    (PATTERN, "\\", WRONG),
    (PATTERN, "\0|\x1b]0;stolen\x07|\x85|\u2028|\u202e|\ud83d", None),
    (PATTERN, "x\n1 2\n", None),  # the second line is how the child is told of a block
    (PATTERN, "(x+)+y" * 100_000, TOO_LONG),
    (TEXT, "(x+)+y", None),
    (TEXT, "\0\x1b]0;stolen\x07\x85\u2028\u202e\ud83d\r\n1 2\n", None),
    (TEXT, "x" * 501, TOO_LONG),
]
# What is no search at all.
NONSENSE: list[object] = [
    "x", 7, True, [], ["x"], {"text": "x", "level": "worst"}, {"text": "x", "level": {"a": []}}
]  # fmt: skip


@pytest.fixture
def run(transactional_db: None, own_redis: object) -> Run:
    found = factories.run(factories.server(factories.box()), RunState.READY)
    LogChunk.objects.append(found.pk, 0, [stamped(n) + LINE for n in range(1, 101)])
    return found


async def listening(run: Run, name: str) -> Socket:
    person = await User.objects.acreate(username=name, role=Role.VIEWER)
    socket = Socket(f"/ws/runs/{run.pk}/log/", session=await session_of(person))
    assert await socket.open()
    assert "hello" in json.loads((await socket.hear())["text"])
    return socket


async def found(socket: Socket) -> dict[str, Any]:
    """The last that is said of a search."""
    while True:
        heard = await socket.hear()
        assert heard["type"] == "websocket.send", heard
        said: dict[str, Any] = json.loads(heard["text"])["found"]
        if said.get("done"):
            return said


def searching() -> list[int]:
    """The processes of this test's that search a log, until they are waited for."""
    children = Path(f"/proc/{os.getpid()}/task")
    pids = " ".join(each.read_text() for each in children.glob("*/children")).split()
    return [int(pid) for pid in pids if _searches(pid)]


def _searches(pid: str) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False
    return b"log_search_child" in command or not command  # a zombie has none


@pytest.mark.asyncio
async def test_every_search_is_answered_or_refused(run: Run) -> None:
    socket = await listening(run, "mallory")

    with Cases() as cases:
        for number, (is_pattern, text, words) in enumerate(WISHES):
            with cases.named(f"{text[:40]!r}, as {'a pattern' if is_pattern else 'a text'}"):
                await socket.say({"find": {"text": text, "regex": is_pattern}, "id": number})
                said = await found(socket)

                assert said["id"] == number
                assert ("error" in said) == (words is not None), said
                assert (words or "") in said.get("error", "")
                await wait_until_async(lambda: not searching(), "its process has ended")
    await socket.leave()


@pytest.mark.asyncio
async def test_who_goes_in_the_middle_of_a_search_leaves_nothing_behind(run: Run) -> None:
    going = [await listening(run, f"mallory-{number}") for number in range(4)]
    staying = await listening(run, "olga")
    for socket in going:
        # Again and again: each ends the one before it.
        for number in range(3):
            await socket.say({"find": {"text": "(x+)+y", "regex": True}, "id": number})
    await wait_until_async(lambda: len(searching()) == log_search._AT_ONCE, "two searches")

    # Whoever reads is served meanwhile.
    await staying.say({"before": 3, "limit": 1})
    assert json.loads((await staying.hear())["text"])["window"][0] == 2

    for socket in going:
        await socket.leave()
    await staying.say({"find": {"text": "X" * 200}, "id": 1})
    assert (await found(staying))["total"] == 100
    await wait_until_async(lambda: not searching(), "each search's process has ended")
    await staying.leave()


@pytest.mark.asyncio
async def test_what_is_no_search_closes_the_socket_without_a_fault(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    with Cases() as cases:
        for number, wish in enumerate(NONSENSE):
            with cases.named(repr(wish)):
                socket = await listening(run, f"mallory-{number}")

                await socket.say({"find": wish, "id": 1})

                assert await socket.hear_close() == 4400
    assert "Traceback" not in caplog.text
    assert searching() == []
