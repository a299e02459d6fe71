"""The tests' own Docker Engine: own socket, folder and bridge; the system's is never touched.

By hand: `python -m tests.docker_engine up`, then what it prints; `down` ends it.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests import images

# Kept between runs, so that images are built once.
FOLDER = Path(os.environ.get("INFERDASH_TEST_CACHE", Path.home() / ".cache/inferdash-tests"))
STATE = FOLDER / "docker"
SOCKET = STATE / "docker.sock"
PIDFILE = STATE / "dockerd.pid"
LOG = STATE / "dockerd.log"
HOST = f"unix://{SOCKET}"
BRIDGE = "ifdt0"
SUBNET = "172.29.241.1/24"
START_WITHIN = 60.0


class DockerEngineError(Exception):
    """The tests' engine does not come up; the text says why."""


def up(*, gpus: bool = True) -> str:
    """Start it unless it runs, and return DOCKER_HOST."""
    if answers():
        return HOST
    dockerd = shutil.which("dockerd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if dockerd is None:
        raise DockerEngineError("dockerd is missing: apt-get install docker.io")
    STATE.mkdir(parents=True, exist_ok=True)
    _make_bridge()
    with contextlib.suppress(FileNotFoundError):
        PIDFILE.unlink()
    with LOG.open("ab") as log:
        process = subprocess.Popen(
            [
                dockerd,
                f"--host={HOST}",
                f"--data-root={STATE / 'data'}",
                f"--exec-root={STATE / 'exec'}",
                f"--pidfile={PIDFILE}",
                f"--bridge={BRIDGE}",
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=os.environ | {"PATH": _path(gpus=gpus)},
        )
    deadline = time.monotonic() + START_WITHIN
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise DockerEngineError(f"dockerd did not start; the end of {LOG}:\n{_tail()}")
        time.sleep(0.1)
    return HOST


def down() -> None:
    """End it and what it runs. Images stay for the next time."""
    try:
        pid = int(PIDFILE.read_text())
        os.kill(pid, signal.SIGTERM)
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return
    deadline = time.monotonic() + START_WITHIN
    while _lives(pid) and time.monotonic() < deadline:
        time.sleep(0.1)


def _path(*, gpus: bool) -> str:
    """PATH for dockerd. With this hook on it, Docker accepts --gpus on a machine without any."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    if not gpus:
        return path
    hooks = STATE / "bin"
    hooks.mkdir(exist_ok=True)
    hook = hooks / "nvidia-container-runtime-hook"
    hook.write_text("#!/bin/sh\nexit 0\n")
    hook.chmod(0o755)
    return f"{hooks}:{path}"


def _make_bridge() -> None:
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        return
    for words in (
        ["link", "add", BRIDGE, "type", "bridge"],
        ["addr", "add", SUBNET, "dev", BRIDGE],
        ["link", "set", BRIDGE, "up"],
    ):
        subprocess.run(["ip", *words], check=True)


def answers() -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        try:
            client.connect(str(SOCKET))
            client.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"200 OK" in client.recv(64)
        except OSError:
            return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended; nobody of ours need reap it.
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def _tail() -> str:
    return "\n".join(LOG.read_text(errors="replace").splitlines()[-10:])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["up"]:
            up()
            images.build_engine(HOST)
            print(f"export DOCKER_HOST={HOST}")
        case ["down"]:
            down()
        case _:
            sys.exit("python -m tests.docker_engine up|down")
