import os
import socket
import ssl
import stat
import sys
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from tests.ports import free_port
from tests.terminal import TerminalProgram
from tests.tls.certificates import make
from tests.up.programs import alive, settings, status
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.up

UP = [sys.executable, "-m", "inferdash.up"]


@pytest.mark.takes(60)
def test_make_up_answers_and_ctrl_c_leaves_nothing(
    start: Callable[..., TerminalProgram], tmp_path: Path
) -> None:
    port, data = free_port(), tmp_path / "var"  # from nothing: it migrates
    up = start(["make", "up"], settings(data, port, SSH_CONNECTION="10.1.1.2 5000 10.1.1.1 22"))
    up.waits_for(f"ready at http://127.0.0.1:{port}")
    up.waits_for(rf"ssh -L {port}:127.0.0.1:{port} \S+@10.1.1.1")
    up.waits_for(rf"first admin opens this link.* http://127.0.0.1:{port}/\S+")
    assert status(port) == 200
    assert "oO0O" not in up.said
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "redis").stat().st_mode) == 0o700
    children = psutil.Process(up.process.pid).children(recursive=True)

    up.press_ctrl_c()
    up.ends()

    wait_until(lambda: not alive(children), "all that it started has ended")
    assert not (data / "redis/redis.sock").exists()


@pytest.mark.takes(60)
def test_a_second_make_up_says_where_the_first_one_is_and_what_is_killed_comes_back(
    start: Callable[..., TerminalProgram], data: Path
) -> None:
    port, other = free_port(), free_port()
    up = start(UP, settings(data, port))
    up.waits_for("ready at")

    same = start(UP, settings(data, port))
    elsewhere = start(UP, settings(data, other))

    pid = up.process.pid
    same.waits_for(rf"already running at http://127.0.0.1:{port} \(pid {pid}\)")
    assert same.ends() == 0
    elsewhere.waits_for(rf"data folder is in use.*{port} \(pid {pid}\).*INFERDASH_DATA")
    assert elsewhere.ends() == 1
    assert status(port) == 200

    killed = up.children()
    assert set(killed) == {"inferdash.up.web", "celery", "manage.py watch", "redis.sock"}

    for child in killed.values():
        child.kill()

    for name in ("web", "worker", "watcher", "redis"):
        up.waits_for(f"{name} was killed by SIGKILL; starting it again in 0.5 s")
    assert status(port) == 200  # the socket stayed open meanwhile: asked now, answered soon
    wait_until(lambda: set(up.children()) == set(killed), lambda: f"all are back, not {up.said}")


def test_a_taken_port_is_told_with_its_holder_and_another_to_take(
    start: Callable[..., TerminalProgram], data: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        up = start(UP, settings(data, port))

        up.waits_for(
            rf"port {port} is taken by python\S* \(pid {os.getpid()}, .*PORT={port + 1} make up"
        )
        assert up.ends() == 1


def test_a_redis_of_ones_own_must_answer(start: Callable[..., TerminalProgram], data: Path) -> None:
    port = free_port()
    up = start(UP, settings(data, port, REDIS_URL=f"redis://:geheim@127.0.0.1:{port}/0"))

    up.waits_for(rf"REDIS_URL names \(redis://:\*\*\*@127.0.0.1:{port}/0\) does not answer")
    assert up.ends() == 1
    assert "geheim" not in up.said


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"PORT": "many"}, "PORT is 'many': write a port from 1 to 65535"),
        ({"HOST": "203.0.113.7"}, "HOST is 203.0.113.7, which is no address of this machine"),
        ({"HOST": "no such"}, "HOST is 'no such', which is no address of this machine"),
        ({"INFERDASH_DATA": "/proc/var"}, "data folder cannot be made or written.*INFERDASH_DATA="),
        ({"DATABASE_URL": "mysql://x"}, "DATABASE_URL starts with 'mysql'"),
        ({"INFERDASH_ALLOWED_HOSTS": "*"}, "name the hosts that people type"),
        ({"TLS": "yes"}, "TLS is 'yes': write TLS=self"),
        ({"TLS": "self", "TLS_CERT": "/x", "TLS_KEY": "/x"}, "leave one of them out"),
        ({"TLS": "self", "INFERDASH_TLS": "True"}, "a proxy ends TLS.*leave one of them out"),
        ({"TLS_CERT": "/nowhere.crt"}, "TLS_CERT is set and TLS_KEY is not"),
        (
            {"TLS_CERT": "/nowhere.crt", "TLS_KEY": "/nowhere.key"},
            "TLS_CERT is /nowhere.crt: there is no such file",
        ),
        ({"TLS": "self", "TLS_DATA": "/proc/tls"}, "keeps its certificates in /proc/tls, which"),
        ({"REDIS_URL": "http://x"}, "REDIS_URL is http://x, which is no address of a Redis"),
        (
            {"DATABASE_URL": "postgresql://x@127.0.0.1:9/x"},
            "the database that DATABASE_URL names.*cannot be used",
        ),
    ],
)
def test_nonsense_ends_with_a_sentence_and_no_traceback(
    start: Callable[..., TerminalProgram], data: Path, setting: dict[str, str], sentence: str
) -> None:
    up = start(UP, settings(data, free_port()) | setting)

    up.waits_for(f"(?s){sentence}")
    assert up.ends() == 1
    assert "Traceback" not in up.said


@pytest.mark.takes(60)
def test_tls_of_its_own_is_made_and_told_with_the_authoritys_fingerprint(
    start: Callable[..., TerminalProgram], data: Path
) -> None:
    port = free_port()
    up = start(["make", "up", "TLS=self"], settings(data, port, HOST="0.0.0.0"))

    up.waits_for(f"ready at https://0.0.0.0:{port}")
    told = up.waits_for(r"SHA-256 fingerprint is ([0-9A-F:]{95})")[1]
    link = up.waits_for(rf"first admin opens this link.* (https://127.0.0.1:{port}/\S+)")[1]

    context = ssl.create_default_context(cafile=str(data / "tls/ca.crt"))
    address = f"https://127.0.0.1:{port}"
    with urlopen(f"{address}/ca.crt", context=context, timeout=PATIENCE) as answer:  # noqa: S310
        digest = sha256(ssl.PEM_cert_to_DER_cert(answer.read().decode())).digest()
    assert digest.hex(":").upper() == told
    with urlopen(link, context=context, timeout=PATIENCE) as answer:  # noqa: S310
        assert answer.status == 200
    assert "without TLS" not in up.said
    assert stat.S_IMODE((data / "tls/ca.key").stat().st_mode) == 0o600


@pytest.mark.takes(60)
def test_a_certificate_for_a_name_is_served_and_the_first_link_is_at_it(
    start: Callable[..., TerminalProgram], data: Path, tmp_path: Path
) -> None:
    port = free_port()
    pair = make(tmp_path, hosts=("rtx8.example.org",), ends=timedelta(days=9))
    named = {"TLS_CERT": str(pair.certificate), "TLS_KEY": str(pair.key)}
    hosts = {"INFERDASH_ALLOWED_HOSTS": "rtx8.example.org,rtx8"}
    up = start(UP, settings(data, port, HOST="0.0.0.0", **named, **hosts))

    up.waits_for("warning: TLS_CERT .* is not for rtx8: browsers refuse it")
    up.waits_for("warning: TLS_CERT .* ends in 8 days")
    up.waits_for(rf"first admin opens this link.* https://rtx8.example.org:{port}/")


@pytest.mark.takes(60)
def test_for_the_team_the_admins_link_is_on_loopback_and_nothing_outlives_a_killed_supervisor(
    start: Callable[..., TerminalProgram], data: Path
) -> None:
    port = free_port()
    up = start(UP, settings(data, port, HOST="0.0.0.0"))

    up.waits_for(f"ready at http://0.0.0.0:{port}")
    up.waits_for("warning: .*INFERDASH_ALLOWED_HOSTS=")
    up.waits_for(f"warning: port {port} is open to the network without TLS.*Write TLS=self")
    up.waits_for(f"first admin opens this link.* http://127.0.0.1:{port}/")

    children = psutil.Process(up.process.pid).children(recursive=True)
    assert len(children) >= 4

    up.process.kill()

    wait_until(lambda: not alive(children), "the last of them ends")
