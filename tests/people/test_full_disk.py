"""The disk of the data folder is full: people get in, see pages, and are told; all comes back."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import databases

# Before anything is full, a connection of somebody else's, as the watcher's: SQLite's own files
# beside the database are there.
SETTLED = """
import errno, json, logging, os, threading, time
from django.conf import settings
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
settings.ALLOWED_HOSTS = ["testserver"]
from django.db import connection
from django.test import Client
from django.urls import reverse
from servers.models import *
from tests import factories

logging.disable(logging.ERROR)
ada = User.objects.create_user("ada", password="a long enough one", role=Role.ADMIN)
server = factories.server(factories.box(settings.BOX), "qwen3-8b")
there = Client(raise_request_exception=False)
there.force_login(ada)

def other():
    connection.ensure_connection()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM servers_user").fetchone()
    opened.set()
    done.wait()

opened, done = threading.Event(), threading.Event()
thread = threading.Thread(target=other, daemon=True)
thread.start()
opened.wait()

def log_in(password="a long enough one"):
    client = Client(raise_request_exception=False)
    response = client.post("/login/", {"username": "ada", "password": password})
    return client, response

def told(response):
    return response.content.decode()
"""

ASKED = """
def ask():
    client, entered = log_in()
    wrong = log_in("wrong")[1]
    started = there.post(reverse("server_start", args=["qwen3-8b"]), headers={"HX-Request": "true"})
    return {
        "login": entered.status_code,
        "page": client.get("/").status_code,
        "page of an open session": there.get("/").status_code,
        "wrong": [wrong.status_code, "do not match" in told(wrong)],
        "start": [started.status_code, told(started)],
        "settings": client.get("/settings/").status_code,
        "is told": "disk of inferdash" in told(client.get("/")),
    }, client
"""

# Until the disk has no room left; `leave` bytes of it stay free.
FILL = """
ballast = settings.DATA / "ballast"

def fill(leave):
    disk = os.statvfs(settings.DATA)
    with ballast.open("ab", buffering=0) as file:
        try:
            file.write(b"x" * (disk.f_bavail * disk.f_frsize - leave))
            if not leave:
                while True:
                    file.write(b"x")
        except OSError as error:
            assert error.errno == errno.ENOSPC

def fill_database():
    # What SQLite still has of room in its own files.
    from django.db import OperationalError
    try:
        while True:
            AuditEntry.note(ada, "x" * 60, "y" * 200, more="z" * 4000)
    except OperationalError:
        pass
"""

FULL = (
    SETTLED
    + FILL
    + ASKED
    + """
from servers.judge.alerts import case
from servers.watcher.alerts import AlertMonitor

case.AFTER["disk"] = case.CALM["disk"] = 0
box = Box.objects.get()
_key, token = Key.make(ada, "laptop", Role.ADMIN, expires_at=None)
alerts = AlertMonitor(box)
def open_alerts():
    alerts.step({"t": time.time(), "findings": [], "verdicts": []})
    return [[each.severity, each.title] for each in Alert.objects.open()]

out = {"alerts before": open_alerts()}
fill(600 * 1024)
out["alerts of little room"] = open_alerts()
fill(0)
fill_database()
out["full"], client = ask()
api = there.post("/api/v1/servers/qwen3-8b/start", headers={"Authorization": f"Bearer {token}"})
out["api"] = [api.status_code, api.json()["error"]["code"]]
changed = there.post(reverse("person_invite"), {"role": "1"}, headers={"HX-Request": "true"})
out["a change"] = [changed.status_code, told(changed)]
ballast.unlink()
out["begun while it was full"] = client.get("/").status_code
client.post("/logout/")
out["after the logout"] = client.get("/").status_code
out["alerts after"] = open_alerts()
out["after"], _client = ask()
out["runs"] = Run.objects.count()
print(json.dumps(out))
"""
)

# A process prints on while nothing of it can be stored; its own log lies on another disk.
LOG = (
    SETTLED
    + FILL
    + """
import subprocess, sys
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import ProcessId
from servers.watcher.logs import follower as logs
from tests.waiting import wait_until

printed = open(os.environ["PRINTED"], "wb")
program = "import sys\\nfor line in sys.stdin: print(line, end='', flush=True)"
process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=printed, stderr=subprocess.DEVNULL, text=True)
key = str(ProcessId.from_process(process.pid, Kernel().life(process.pid).start, Kernel()))
run = factories.external_run(server, container_id=key, is_complete=False)
troubles = []
logging.disable(logging.NOTSET)
storing = logging.getLogger("servers.watcher.logs.writer")
storing.setLevel(logging.WARNING)
storing.addFilter(lambda said: troubles.append(said.getMessage()))

def prints(first, count):
    for number in range(first, first + count):
        process.stdin.write(f"line {number} " + "x" * 500 + "\\n")
    process.stdin.flush()

def stored():
    lines = LogChunk.objects.lines(run.pk, 0, 100_000)
    return [(line.number, line.text.split(" x")[0]) for line in lines]

prints(1, 10)
follower = logs.follow(run.pk, key)
wait_until(lambda: len(stored()) == 11, "the first lines are stored")  # after one that says where
fill(0)
fill_database()
prints(11, 5000)
wait_until(lambda: troubles, "storing has met the full disk")
out = {"while it was full": len(stored())}
process.stdin.close()
process.wait()
ballast.unlink()
follower.join(60)
out["troubles"] = troubles
out["lines"] = stored()[1:]
out["whole"] = Run.objects.get(pk=run.pk).log.is_complete
print(json.dumps(out))
"""
)


@pytest.mark.docker  # for its root
def test_a_log_goes_on_where_it_was_once_there_is_room(
    small: Path, tmp_path: Path, redis_url: str
) -> None:
    with databases.database(databases.SQLITE, small) as environment:
        environment |= {"REDIS_URL": redis_url, "PRINTED": str(tmp_path / "printed")}
        found = json.loads(databases.run(LOG, environment))

    assert found["while it was full"] < 5011
    assert SENTENCE in found["troubles"][0]
    assert len(found["troubles"]) == 1, "it is told once"
    assert found["lines"] == [[n + 1, f"line {n}"] for n in range(1, 5011)]
    assert found["whole"]


SENTENCE = "The disk of inferdash's data folder is full"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 14 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=14m", "tests", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.docker  # for its root
def test_a_full_disk_keeps_nobody_out_and_is_told(small: Path, redis_url: str) -> None:
    with databases.database(databases.SQLITE, small) as environment:
        environment |= {"REDIS_URL": redis_url}
        found = json.loads(databases.run(FULL, environment))

    full = found["full"]
    assert found["alerts before"] == []
    assert [each[0] for each in found["alerts of little room"]] == ["warning"]
    assert (full["login"], full["page"], full["page of an open session"]) == (302, 200, 200)
    assert full["wrong"] == [200, True]
    assert full["settings"] == 200
    assert full["is told"]
    assert full["start"][0] == 503
    assert full["start"][1].startswith(SENTENCE)
    assert found["api"] == [503, "disk_full"]
    assert found["a change"][0] == 503
    assert found["a change"][1].startswith(SENTENCE)
    assert found["begun while it was full"] == 200
    assert found["after the logout"] == 302
    assert found["alerts after"] == []
    after = found["after"]
    assert (after["login"], after["page"], after["start"][0]) == (302, 200, 204)
    assert not after["is told"]
    assert found["runs"] == 1


POSTGRES_FULL = (
    SETTLED
    + ASKED
    + """
from itertools import count
from django.contrib.sessions.backends.db import SessionStore
from django.db import OperationalError

done.set()
thread.join()
ballast = os.environ["SMALL_DISK"] + "/ballast"
with open(ballast, "ab", buffering=0) as file:
    try:
        while True:
            file.write(b"x" * 65536)
    except OSError as error:
        assert error.errno == errno.ENOSPC

# A table goes on until the page that it has begun is full, too.
WRITERS = [
    lambda number: AuditEntry.note(ada, "x", "y", more="z" * 1500),
    lambda number: AuditEntry.note(ada, "x", "y"),
    lambda number: factories.run(server, "failed", failure="x"),
    lambda number: LoginFailure.objects.create(username=f"u{number}", address="192.0.2.1"),
    lambda number: SessionStore().save(must_create=True),
]
for write in WRITERS:
    try:
        for number in count():
            write(number)
    except OperationalError as error:
        assert "No space left on device" in str(error), error
out = {"full": ask()[0]}
os.unlink(ballast)
out["after"], _client = ask()
out["runs"] = Run.objects.exclude(state="failed").count()
print(json.dumps(out))
"""
)


@pytest.mark.docker  # for its root
@pytest.mark.takes(40)
def test_postgresql_on_a_full_disk_keeps_nobody_out(
    tmp_path: Path, short_path: Path, redis_url: str
) -> None:
    mount = [
        "mount",
        "-t",
        "tmpfs",
        "-o",
        "size=64m,uid=postgres,mode=711",
        "tests",
        str(short_path),
    ]
    subprocess.run(mount, check=True)
    short_path.chmod(0o711)
    try:
        with databases.database(databases.POSTGRESQL, tmp_path) as environment:
            databases.move(environment, short_path)
            environment |= {"REDIS_URL": redis_url, "SMALL_DISK": str(short_path)}
            found = json.loads(databases.run(POSTGRES_FULL, environment))
    finally:
        subprocess.run(["umount", short_path], check=True)

    full, after = found["full"], found["after"]
    assert (full["login"], full["page"], full["page of an open session"]) == (302, 200, 200)
    assert full["wrong"] == [200, True]
    assert full["start"][0] == 503
    assert full["start"][1].startswith("The disk of inferdash's database is full")
    assert (after["login"], after["page"], after["start"][0]) == (302, 200, 204)
    assert found["runs"] == 1
