"""What others have written comes to a terminal, or into a file for one, as text alone."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from inferdash.terminal import show
from servers.judge.logs import parsing
from servers.models import JobLog, Role, User
from servers.models.logs import LogChunk
from servers.models.runs.run import RunState
from tests import factories, shelves
from tests.cases import table
from tests.hostile_server import HostileServer, Talk, hostile_server
from tests.streamed import whole_of
from tests.terminal import TerminalProgram

COMMAND = [sys.executable, "-m", "inferdash.terminal"]
# Fills the clipboard, names the window, clears the screen, is a link, in 7 and 8 bits; turns the
# writing around; writes over the line's begin; ends the line elsewhere.
HARMFUL = (
    "\x1b]52;c;ZXZpbA==\x07", "\x1b]0;owned\x1b\\", "\x1b[2J", "\x1b]8;;http://evil\x07",
    "\x9b2J", "\x9d0;owned\x9c", "\x90x", "\u202e", "\u2066", "\u200f", "\u061c", "\r", "\x08",
    "\x0b", "\x0c", "\x85", "\u2028", "\x7f", "\0", "\x1b", "\x1bc", "\x1b]52;c;",
)  # fmt: skip
LINE = f"begin {' | '.join(HARMFUL)} äöü\t漢 end"
OBEYED = {chr(code) for code in (*range(9), *range(11, 32), *range(127, 160))} | set(
    "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


def is_harmless(text: str) -> bool:
    return not OBEYED & set(text)


@table("text", [*HARMFUL, LINE])
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    for made in (show.readable(f"a{text}z"), parsing.safe(f"a{text}z")):
        assert is_harmless(made), ascii(made)
        assert made.startswith("a")
    assert show.readable(text) == parsing.safe(text)
    assert is_harmless(show.strip_controls(text))


def test_what_is_text_stays_and_what_is_taken_away_shows() -> None:
    text = "äöü\t漢 🙂 é\n second"
    assert show.readable(text) == parsing.safe(text) == show.strip_controls(text) == text
    assert show.readable("\x1b[31mred\x1b[0m\r10\x07 \x9b2J\u202e") == "red␍10␇ �2J�"


def test_a_sequence_that_nobody_ends_hides_nothing() -> None:
    for make in (show.readable, parsing.safe):
        assert make("a\x1b]0;b\nc\x1b]52;d") == "a␛]0;b\nc␛]52;d"
    assert parsing.plain("a\x1b]0;b\nc") == "a\nc"


@pytest.fixture
def there() -> Iterator[HostileServer]:
    """As much of an inferdash as the terminal asks, whose every text is hostile."""
    log = {"number": 1, "at": "2026-11-21T20:00:00Z", "stream": "o", "text": LINE}
    answers: dict[str, object] = {
        "/api/v1/servers/echo": {"run": {"id": 7}},
        "/api/v1/runs/7/log": {"lines": [log], "next": 2, "is_complete": True},
        "/api/v1/runs/7/why": {
            "run": {"state": "failed", "server": LINE, "memory": LINE},
            "summary": LINE, "evidence": [[1, LINE]], "is_partial": False,
        },
    }  # fmt: skip

    def say(talk: Talk) -> None:
        found = answers.get(talk.line.split()[1].partition("?")[0])
        body = json.dumps(found or {"error": {"message": LINE, "advice": LINE}}).encode()
        talk.send("200 OK" if found else "404 Not Found", body)

    with hostile_server() as server:
        server.otherwise = say
        yield server


def on_terminal(there: HostileServer, *words: str) -> str:
    environment = {"INFERDASH_URL": there.url, "INFERDASH_KEY": "ifd_x", "NO_COLOR": "1"}
    started = TerminalProgram([*COMMAND, *words], environment)
    started.ends()
    os.close(started.terminal)
    return started.said.replace("\r\n", "\n")


def test_a_log_on_a_terminal_is_text(there: HostileServer) -> None:
    assert "\x1b]52" in on_terminal(there, "logs", "echo", "--raw")
    for words in (["logs", "echo"], ["logs", "echo", "-t"], ["why", "echo"], ["why", "nobody"],
                  ["why", "echo", "--json"]):  # fmt: skip
        said = on_terminal(there, *words)
        assert is_harmless(said), (words, ascii(said))
        assert "begin" in said


def test_a_log_in_a_file_is_text_unless_raw_is_wanted(there: HostileServer, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        environment = {"INFERDASH_URL": there.url, "INFERDASH_KEY": "ifd_x"}
        with (tmp_path / "log").open("w+b") as file:
            command = [*COMMAND, "logs", "echo", *words]
            subprocess.run(command, stdout=file, env=os.environ | environment, check=True)
            file.seek(0)
            return file.read().decode()

    assert is_harmless(said())
    assert said("--raw") == f"{LINE}\n"
    assert json.loads(said("--json"))["text"] == LINE


@pytest.mark.django_db
def test_a_downloaded_log_is_text_unless_raw_is_wanted(client: Client) -> None:
    box = factories.box("rtx8")
    run = factories.run(factories.server(box, "echo"), RunState.READY)
    LogChunk.objects.append(run.pk, 0, [f"2026-11-21T20:00:00.000000000Z o {LINE}".encode()])
    job = shelves.image_job(box, kind="build", state="done", lines=1, said="")
    JobLog.objects.create(job=job, first=1, text=LINE.replace("\0", ""))
    client.force_login(User.objects.create(username="bob", role=Role.ADMIN))
    for address in (f"/runs/{run.pk}/log/", f"/images/jobs/{job.pk}/log.txt"):
        text = async_to_sync(whole_of)(client.get(address)).decode()
        assert is_harmless(text), ascii(text)
        assert "äöü\t漢 end\n" in text
        raw = async_to_sync(whole_of)(client.get(f"{address}?raw")).decode()
        assert raw.replace("\0", "") == f"{LINE}\n".replace("\0", "")
