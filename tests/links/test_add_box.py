"""What stands in the way of a box that is added over ssh."""

import os
import subprocess
from pathlib import Path

import pytest

from inferdash.wire.add import (
    _PROBE,
    MIN_ROOM,
    AddError,
    RemoteFacts,
    RemoteShell,
    find_hindrance,
)
from tests.cases import table


def look(folder: Path, **environment: str) -> RemoteFacts:
    """As at this machine, by what the probe says of it."""
    done = subprocess.run(
        ["sh", "-c", _PROBE, "sh", str(folder)],
        env=os.environ | environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return RemoteFacts.read(done.stdout)


@table(
    ("lines", "said"),
    {
        "joined": ({"joined": "/home/milo/var"}, "has joined a hub already"),
        "taken": ({"taken": "yes"}, "holds something else"),
        "no python": ({"python": ""}, "no Python 3.12"),
        "no ssh": ({"ssh": ""}, "has no ssh"),
        "no docker": ({"docker": ""}, "has no Docker at /run/docker.sock"),
        "closed docker": ({"docker": "closed"}, "usermod -aG docker"),
        "full disk": ({"free": str(MIN_ROOM // 2048)}, "1.0 GiB free, and 2 GiB are needed"),
        "all is there": ({}, ""),
    }.values(),
)
def test_what_is_missing_is_said_with_what_helps(lines: dict[str, str], said: str) -> None:
    usual = {
        "folder": "/home/milo/inferdash", "machine": "aarch64", "came_from": "10.0.0.1",
        "python": "3.12", "ssh": "yes", "docker_socket": "/run/docker.sock", "docker": "yes",
        "free": str(MIN_ROOM), "end": "yes",
    }  # fmt: skip
    text = "\n".join(f"{name} {value}" for name, value in (usual | lines).items())

    why = find_hindrance(RemoteFacts.read(text), "milo@10.0.0.2")

    assert said in why
    assert bool(why) == bool(said)


def test_the_first_look_tells_what_a_machine_has(tmp_path: Path) -> None:
    socket = tmp_path / "docker.sock"
    socket.touch()
    folder = tmp_path / "home" / "inferdash"

    found = look(folder, DOCKER_HOST=f"unix://{socket}", SSH_CONNECTION="10.0.0.1 1 10.0.0.2 22")

    assert (found.folder, found.came_from) == (str(folder), "10.0.0.1")
    assert (found.docker, found.docker_socket) == ("yes", str(socket))
    assert (found.joined, found.is_taken) == ("", False)
    assert found.machine == os.uname().machine
    assert found.free > 0
    socket.unlink()
    (folder / "var/wire").mkdir(parents=True)
    (folder / "var/wire/wire.env").touch()
    found = look(folder, DOCKER_HOST=f"unix://{socket}")
    assert (found.docker, found.joined, found.is_taken) == ("", f"{folder}/var", True)
    (folder / "added-by-hub").touch()
    assert not look(folder).is_taken
    with pytest.raises(AddError, match="did not run"):
        RemoteFacts.read("machine x86_64\n")


def test_a_machine_that_ssh_does_not_reach_is_told(tmp_path: Path) -> None:
    ssh = ["ssh", "-F", "/dev/null", "-o", "BatchMode=yes", "-p", "1"]

    with pytest.raises(AddError, match=r"ssh does not reach nobody@127\.0\.0\.1"):
        RemoteShell("nobody@127.0.0.1", ssh, tmp_path)
