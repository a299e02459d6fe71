"""A Redis with TLS: every client of inferdash's speaks it, and trusts whom it was told to."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from inferdash.environment import with_tls
from inferdash.tls.pair import Pair
from inferdash.up.redis import RedisError, choose
from tests.cases import Cases, table
from tests.ports import free_port
from tests.terminal import ROOT
from tests.tls.certificates import make
from tests.waiting import PATIENCE, wait_until

PASSWORD = "a-redis-password"
# By each client, a message there and back; what went wrong instead, by its kind.
CLIENTS = """
import asyncio, json
import django
django.setup()
from channels.layers import get_channel_layer
from django.conf import settings
from inferdash.celery import app
from servers.state import store

def own():
    assert store.client.ping()

def channels():
    async def there_and_back():
        layer = get_channel_layer()
        name = await layer.new_channel()
        await layer.send(name, {"type": "test"})
        assert await layer.receive(name) == {"type": "test"}
    asyncio.run(there_and_back())

def celery():
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=60)
        app.send_task("servers.advance", [1], queue="box.test", connection=connection,
                      retry=False)
        assert connection.default_channel.client.llen("box.test") == 1

said = {}
for each in (own, channels, celery):
    try:
        each()
        said[each.__name__] = ""
    except Exception as error:
        said[each.__name__] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@dataclass(frozen=True)
class Encrypted:
    url: str
    pair: Pair


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """Debian's server: the one in the wheel speaks no TLS. It listens with TLS alone."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    assert program is not None
    folder = tmp_path_factory.mktemp("redis")
    pair, port = make(folder, name="redis"), free_port()
    arguments = {
        "port": "0", "tls-port": str(port), "bind": "127.0.0.1 127.0.0.2", "save": "", "dir": str(folder),
        "tls-cert-file": str(pair.certificate), "tls-key-file": str(pair.key),
        "tls-auth-clients": "no", "requirepass": PASSWORD,
    }  # fmt: skip
    words = [word for name, text in arguments.items() for word in (f"--{name}", *_words(text))]
    server = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(port, server), "Redis listens")
        yield Encrypted(f"rediss://:{PASSWORD}@localhost:{port}/0", pair)
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE)


def _words(text: str) -> list[str]:
    return text.split(" ") if text else [""]


def _listens(port: int, server: "subprocess.Popen[bytes]") -> bool:
    assert server.poll() is None, "Redis has ended"
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


def environment(folder: Path, url: str, authority: str) -> dict[str, str]:
    return os.environ | {
        "INFERDASH_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "inferdash.settings",
        "REDIS_URL": url, "REDIS_CA": authority, "DATABASE_URL": "", "LOG_LEVEL": "ERROR",
    }  # fmt: skip


def asked(folder: Path, url: str, authority: str) -> dict[str, str]:
    """What each client says; "" where all is well."""
    done = subprocess.run(
        [sys.executable, "-c", CLIENTS],
        cwd=ROOT,
        env=environment(folder, url, authority),
        check=True,
        stdout=subprocess.PIPE,
    )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_every_client_speaks_it_with_the_authority_that_is_given(
    encrypted: Encrypted, tmp_path: Path
) -> None:
    said = asked(tmp_path, encrypted.url, str(encrypted.pair.certificate))
    assert said == {"own": "", "channels": "", "celery": ""}


def test_every_client_refuses_another_authority(encrypted: Encrypted, tmp_path: Path) -> None:
    another = make(tmp_path, name="another").certificate
    with Cases() as cases:
        # That of somebody else; none, where the system knows none; a name that it is not for.
        for name, url, authority in (
            ("another", encrypted.url, str(another)),
            ("the system's", encrypted.url, ""),
            ("another host", encrypted.url.replace("localhost", "127.0.0.2"),
             str(encrypted.pair.certificate)),
        ):  # fmt: skip
            said = asked(tmp_path, url, authority)
            for client in ("own", "channels", "celery"):
                with cases.named(f"{client}, {name}"):
                    assert "certificate verify failed" in said[client]


def test_the_start_says_why_it_cannot_be_trusted(encrypted: Encrypted, tmp_path: Path) -> None:
    url = with_tls(encrypted.url, "")
    with pytest.raises(RedisError, match="certificate verify failed") as refused:
        choose(url, tmp_path, chosen=True)
    assert PASSWORD not in str(refused.value)
    trusted = with_tls(encrypted.url, str(encrypted.pair.certificate))
    assert choose(trusted, tmp_path, chosen=True) is None


@table(
    ("url", "written"),
    [
        ("unix:///run/redis.sock", None), ("redis://127.0.0.1:6379/0", None),
        ("rediss://:x@h:6379/0", "rediss://:x@h:6379/0?ssl_cert_reqs=required"),
        ("rediss://h/0?db=1", "rediss://h/0?ssl_cert_reqs=required&db=1"),
        ("rediss://h/0?ssl_cert_reqs=none", None), ("rediss://:p%2Fq@h/0?ssl_cert_reqs=required", None),
        # One client would take the first of two, another the last.
        ("rediss://h/?ssl_cert_reqs=required&ssl_cert_reqs=none", "rediss://h/?ssl_cert_reqs=none"),
    ],
)  # fmt: skip
def test_an_address_says_all_that_each_client_needs(url: str, written: str | None) -> None:
    assert with_tls(url, "") == (written or url)


def test_a_wrong_setting_stops_the_start_with_a_sentence(tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.crt")
    with Cases() as cases:
        for url, authority, words in (
            ("rediss://:x@redis.lan/0", gone, f"REDIS_CA names {gone}, which is no file"),
            ("redis://127.0.0.1/0", gone, "REDIS_CA is for a Redis with TLS"),
            ("rediss://:x@redis.lan/0?ssl_check_hostname=false", "", "INFERDASH_REDIS_OPEN"),
        ):
            with cases.named(words):
                done = subprocess.run(
                    [sys.executable, "-c", "import inferdash.settings"],
                    cwd=ROOT,
                    env=environment(tmp_path, url, authority),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode
                assert words in done.stderr
