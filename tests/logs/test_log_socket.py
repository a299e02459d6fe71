import json
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from servers.host.docker.containers import DockerContainers
from tests.chat_stack import ROOT, Stack, seeded
from tests.logs.store import AT, container
from tests.waiting import PATIENCE, wait_until
from tests.web_stack import WebStack


@pytest.fixture
def stack(web: WebStack) -> Stack:
    return seeded(web, 9)


def log_lines(stack: Stack) -> int:
    path = Path(stack.env["INFERDASH_DATA"]) / "inferdash.sqlite3"
    with closing(sqlite3.connect(path, timeout=PATIENCE)) as database:
        query = "select lines from servers_runlog where run_id = ?"
        return int(database.execute(query, [stack.run]).fetchone()[0])


def texts(stack: Stack) -> list[str]:
    code = (
        "import json\n"
        f"lines = LogChunk.objects.lines({stack.run}, 0, 1000000)\n"
        "print(json.dumps([line.text for line in lines]))"
    )
    found: list[str] = json.loads(stack.shell(code))
    return found


def follower(
    stack: Stack, container_id: str, docker: DockerContainers
) -> "subprocess.Popen[bytes]":
    words = ["-m", "tests.log_follower", str(stack.run), container_id, docker.install, docker.host]
    return subprocess.Popen([sys.executable, *words], cwd=ROOT, env=stack.env)


@pytest.mark.docker
@pytest.mark.takes(40)
def test_no_line_of_100_000_is_lost_or_doubled_when_followers_are_killed(
    stack: Stack, docker: DockerContainers
) -> None:
    program = (
        "import time\nfor n in range(100000):\n    print(n)\n    if n % 1000 == 0: time.sleep(0.04)"
    )
    made = container(docker, program)
    for kill_at in (5_000, 30_000, 60_000):
        process = follower(stack, made, docker)
        wait_until(lambda: log_lines(stack) >= kill_at, lambda: f"{log_lines(stack)} lines")  # noqa: B023
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert follower(stack, made, docker).wait(timeout=PATIENCE) == 0

    assert texts(stack) == [str(n) for n in range(100_000)]


@pytest.mark.docker
def test_a_database_that_is_away_loses_no_line(stack: Stack, docker: DockerContainers) -> None:
    made = container(docker, "for n in range(3000): print(n)")
    rename(stack, "servers_logchunk", "elsewhere")
    words = ["-m", "tests.log_follower", str(stack.run), made, docker.install, docker.host]
    with subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=stack.env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "the database is away" in process.stderr.readline()
        rename(stack, "elsewhere", "servers_logchunk")
        assert process.wait(timeout=PATIENCE) == 0

    assert texts(stack) == [str(n) for n in range(3000)]


def rename(stack: Stack, table: str, to: str) -> None:
    path = Path(stack.env["INFERDASH_DATA"]) / "inferdash.sqlite3"
    with closing(sqlite3.connect(path, timeout=PATIENCE)) as database:
        database.execute(f"alter table {table} rename to {to}")
        database.commit()


def socket_of(stack: Stack, run: int, *, session: str | None = None) -> ClientConnection:
    return connect(
        f"{stack.url.replace('http', 'ws')}/ws/runs/{run}/log/",
        origin=Origin(stack.url),
        additional_headers={"Cookie": f"{stack.cookie}={session or stack.session}"},
        max_size=2**26,
    )


def ask(socket: ClientConnection, **wish: Any) -> Any:
    socket.send(json.dumps(wish))
    return json.loads(socket.recv(timeout=PATIENCE))


class SearchMessages:
    """All that the server says of one search."""

    def __init__(self) -> None:
        self.order: list[int] = []
        self.last: dict[str, Any] = {}

    @property
    def numbers(self) -> list[int]:
        return sorted(self.order)


def search(
    socket: ClientConnection, *, near: int = 0, after: int = 0, **query: Any
) -> SearchMessages:
    found = SearchMessages()
    socket.send(json.dumps({"find": query, "id": 7, "near": near, "after": after}))
    while not found.last.get("done"):
        found.last = json.loads(socket.recv(timeout=PATIENCE))["found"]
        found.order += found.last["numbers"]
    return found


def fill(stack: Stack, count: int, after: int = 0) -> None:
    stack.shell(
        "from servers import events\n"
        f"records = [f'{AT} o line {{n}}'.encode() for n in range({after + 1}, {after + count + 1})]\n"
        f"LogChunk.objects.append({stack.run}, {after}, records)\n"
        f"events.publish_log_growth({stack.run}, {after + count})"
    )


NOTHING_YET = "Nothing yet. Lines appear here as the engine writes them."
HELLO = {"hello": {"lines": 3000, "complete": False, "gap": None, "empty": NOTHING_YET}}


def test_a_browser_gets_the_tail_and_then_every_new_line(stack: Stack) -> None:
    fill(stack, 3000)
    with socket_of(stack, stack.run) as socket:
        assert json.loads(socket.recv(timeout=PATIENCE)) == HELLO
        first, lines = ask(socket, tail=2)
        assert (first, [line[2] for line in lines]) == (2999, ["line 2999", "line 3000"])

        threading.Thread(target=fill, args=[stack, 2, 3000]).start()
        first, lines = json.loads(socket.recv(timeout=PATIENCE))

    assert (first, [line[2] for line in lines]) == (3001, ["line 3001", "line 3002"])


def test_a_browser_that_comes_back_goes_on_from_its_own_line(stack: Stack) -> None:
    fill(stack, 2500)
    with socket_of(stack, stack.run) as socket:
        socket.recv(timeout=PATIENCE)
        first, lines = ask(socket, after=700)
        received = list(range(first, first + len(lines)))
        while received[-1] < 2500:
            first, lines = json.loads(socket.recv(timeout=PATIENCE))
            received += range(first, first + len(lines))

    assert received == list(range(701, 2501))


def test_earlier_lines_and_hits_are_there_for_the_asking(stack: Stack) -> None:
    fill(stack, 1500)
    with socket_of(stack, stack.run) as socket:
        socket.recv(timeout=PATIENCE)
        before = ask(socket, before=1000, limit=100)["window"]
        start = ask(socket, **{"from": 1, "limit": 5})["window"]
        found = search(socket, text="LINE 14")

    assert (before[0], len(before[1])) == (900, 100)
    assert [line[2] for line in start[1]] == [f"line {n}" for n in range(1, 6)]
    assert found.numbers == [14, *range(140, 150), *range(1400, 1500)]
    assert found.last | {"numbers": []} == {
        "id": 7, "numbers": [], "total": 111, "looked": 1500, "upto": 1500, "done": True
    }  # fmt: skip


def test_the_hits_below_the_reader_come_first_and_then_those_above_upwards(stack: Stack) -> None:
    fill(stack, 3000)
    with socket_of(stack, stack.run) as socket:
        socket.recv(timeout=PATIENCE)
        found = search(socket, near=2100, text="^line \\d+00$", regex=True, case=True)
        later = search(socket, after=2900, text="LINE", case=False)
        exact = search(socket, text="LINE", case=True)

    order = found.order
    assert order.index(2100) < order.index(100)
    assert order[0] in (2000, 2100), "the block in which the reader is comes first"
    assert found.numbers == list(range(100, 3001, 100))
    assert later.numbers == list(range(2901, 3001))
    assert exact.last["total"] == 0


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(oops", "This is no regular expression: missing ), unterminated subpattern"),
        ("(x+x+)+y", "This pattern takes too long, near line 1."),
        ("(?:a{1,9999}){1,9999}" * 20, None),
    ],
)
def test_no_pattern_holds_the_server_up(stack: Stack, pattern: str, said: str | None) -> None:
    stack.shell(
        f"records = [f'{AT} o {{'x' * 200}}'.encode() for _ in range(100)]\n"
        f"LogChunk.objects.append({stack.run}, 0, records)"
    )
    with socket_of(stack, stack.run) as socket:
        socket.recv(timeout=PATIENCE)
        found = search(socket, text=pattern, regex=True)
        assert found.last["done"]
        assert (said or "") in found.last.get("error", "")
        # Everything else goes on.
        assert ask(socket, before=3, limit=1)["window"][0] == 2


def test_errors_and_ranks_are_told_apart(stack: Stack) -> None:
    lines = [
        "INFO 11-21 10:00:00 [core.py:12] all is well",
        "(VllmWorker TP1 pid=7) ERROR 11-21 10:00:00 [core.py:12] CUDA out of memory",
        "[2026-03-30 14:21:44 TP1] loading",
        "WARNING 11-21 10:00:00 [core.py:13] slow",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "ValueError: no",
        "INFO:     0 errors",
    ]
    stack.shell(
        f"records = [f'{AT} o {{text}}'.encode() for text in {lines!r}]\n"
        f"LogChunk.objects.append({stack.run}, 0, records)"
    )
    with socket_of(stack, stack.run) as socket:
        socket.recv(timeout=PATIENCE)
        assert search(socket, level="error").numbers == [2, 5, 6, 7]
        assert search(socket, level="warning").numbers == [2, 4, 5, 6, 7]
        assert search(socket, level="warning", worst="warning").numbers == [4]
        assert search(socket, rank="TP1").numbers == [2, 3]
        assert search(socket, rank="TP1", level="error", text="memory").numbers == [2]
        picked = ask(socket, pick=[7, 2])["picked"]
        outline = ask(socket, outline=True)["outline"]
    assert [(each[0], each[3]) for each in picked] == [(2, lines[1]), (7, lines[6])]
    assert outline == {"errors": [2, 5, 6, 7], "warnings": [4], "ranks": ["TP1"],
                       "harmless": [], "figures": {}, "phases": [],
                       "evidence": []}  # fmt: skip


@pytest.mark.parametrize(
    ("run", "session", "code"), [(None, "nobody", 4401), (999_999, None, 4404)]
)
def test_who_may_not_look_is_told_to_stay_away(
    stack: Stack, run: int | None, session: str | None, code: int
) -> None:
    with socket_of(stack, run or stack.run, session=session) as socket:
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=PATIENCE)
        assert socket.close_code == code
