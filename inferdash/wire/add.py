"""A further box added from the hub: `make add-box HOST=milo@10.0.0.2`, over the ssh of whoever runs it.

The bundle is copied, installed and joined there, and the six words are compared. Nothing of that
ssh is kept: the box comes by a key and a link of its own.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import django

from inferdash.up.install import fingerprint

MIN_ROOM = 2 * 2**30  # bytes: code, packages, and room for logs
PATIENCE = 1200.0  # seconds for the installation and the join
HEARD_WITHIN = 180.0  # seconds from being let in to the first word over the link
LOOK_EVERY = 1.0
_LAST_LINES = 8

# One fact a line. It looks for a Python as inferdash/up/up.sh does.
_PROBE = r"""
folder=$1
case $folder in /*) ;; *) folder=$HOME/$folder ;; esac
echo "folder $folder"
echo "machine $(uname -m)"
echo "came_from ${SSH_CONNECTION%% *}"
uv=$(command -v uv >/dev/null && uv python find '>=3.12' 2>/dev/null)
for python in "$folder/.venv/bin/python" python3.12 python3.13 python3.14 python3 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9].*/bin/python3 $uv; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
        echo "python $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
        break
    fi
done
command -v ssh >/dev/null && echo "ssh yes"
socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
socket=${socket#unix://}
echo "docker_socket $socket"
if [ -w "$socket" ]; then echo "docker yes"; elif [ -e "$socket" ]; then echo "docker closed"; fi
parent=$folder
while [ ! -d "$parent" ]; do parent=$(dirname "$parent"); done
echo "free $(df -Pk "$parent" | awk 'NR == 2 { print $4 }')"
[ -e "$folder/.venv/requirements.stamp" ] && echo "packages $(cat "$folder/.venv/requirements.stamp")"
data=${INFERDASH_DATA:-$folder/var}
[ -e "$data/wire/wire.env" ] && echo "joined $data"
if [ -d "$folder" ] && [ -n "$(ls -A "$folder")" ]; then
    if [ -e "$folder/added-by-hub" ]; then echo "ours yes"; else echo "taken yes"; fi
fi
echo "end yes"
"""
# The token comes on standard input, as every account there can read the words of a command.
_JOIN = r"""
cd "$1"
IFS= read -r TOKEN
export TOKEN NAME="$2"
INFERDASH_PROGRAM=inferdash.up.install INFERDASH_COMMAND="make join" \
    setsid nohup sh inferdash/up/up.sh --start inferdash.wire.join >join.log 2>&1 </dev/null &
echo $! >join.pid
"""
# What is new of its log, and whether it still runs.
_HEAR = r"""cd "$1" && cat join.log; kill -0 "$(cat join.pid)" 2>/dev/null && echo "added-box: it runs" """


class AddError(Exception):
    """Why the box was not added, and what to do about it."""


@dataclass(frozen=True, kw_only=True)
class RemoteFacts:
    """What the other machine has; "" and 0 for what it lacks."""

    folder: str
    machine: str
    came_from: str  # this machine's address, as it is seen there
    python: str
    has_ssh: bool
    docker: str  # yes, closed: not for this account
    docker_socket: str
    free: int  # bytes
    joined: str  # its data folder
    packages: str  # of which lock file it has them, by an earlier try
    is_taken: bool  # by something else than an earlier try

    @classmethod
    def read(cls, text: str) -> "RemoteFacts":
        """Raises AddError where the machine did not answer to the end."""
        found = dict(line.partition(" ")[::2] for line in text.splitlines() if " " in line)
        if found.get("end") != "yes":
            raise AddError("The other machine's shell did not run the first look to its end.")
        return cls(
            folder=found["folder"],
            machine=found["machine"],
            came_from=found.get("came_from", ""),
            python=found.get("python", ""),
            has_ssh=found.get("ssh") == "yes",
            docker=found.get("docker", ""),
            docker_socket=found["docker_socket"],
            free=int(found.get("free") or 0) * 1024,
            joined=found.get("joined", ""),
            packages=found.get("packages", ""),
            is_taken=found.get("taken") == "yes",
        )


def find_hindrance(there: RemoteFacts, host: str) -> str:
    """Why that machine cannot become a box yet, with what helps; "" where it can."""
    if there.joined:
        return (
            f"{host} has joined a hub already: its data lie in {there.joined}. To join anew, revoke "
            "it on its hub, stop inferdash there and delete the folder wire in them."
        )
    if there.is_taken:
        return f"{there.folder} on {host} holds something else. Name another one: FOLDER=~/box."
    if not there.python:
        return (
            f"{host} has no Python 3.12 or newer. Install one there (sudo apt install python3, or "
            "uv python install 3.12), then say this again."
        )
    if not there.has_ssh:
        return f"{host} has no ssh: sudo apt install openssh-client there (Fedora: dnf)."
    if not there.docker:
        return f"{host} has no Docker at {there.docker_socket}. Install and start it there."
    if there.docker == "closed":
        return (
            f"Docker's socket {there.docker_socket} is closed to this account of {host}: sudo "
            "usermod -aG docker $USER there, then say this again."
        )
    if there.free < MIN_ROOM:
        return (
            f"The disk of {there.folder} on {host} has {there.free / 2**30:.1f} GiB free, and "
            f"{MIN_ROOM / 2**30:.0f} GiB are needed. Make room, or name another FOLDER=."
        )
    return ""


class RemoteShell:
    """The other machine, by the person's own ssh; asked for a password once."""

    def __init__(self, host: str, ssh: list[str], folder: Path) -> None:
        """Raises AddError."""
        self.host = host
        path = ("-o", f"ControlPath={folder}/ssh")
        self._command = [*ssh, *path]
        # In front: it asks whoever runs this, and everything below goes by that one connection.
        begin = [*ssh, *path, "-o", "ConnectTimeout=15", "-M", "-f", "-N", host]
        self._check(subprocess.run(begin, check=False).returncode, "")

    def run(self, script: str, *words: str, given: str = "") -> str:
        """What it printed. Raises AddError."""
        # Not as its standard input, which may hold what is given.
        remote = shlex.join(["sh", "-c", script, "sh", *words])
        done = subprocess.run(
            [*self._command, self.host, remote],
            input=given, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self._check(done.returncode, done.stderr)
        return done.stdout

    def send(self, path: Path, script: str, *words: str) -> None:
        """A file, as the script's standard input. Raises AddError."""
        remote = shlex.join(["sh", "-c", script, "sh", *words])
        with path.open("rb") as file:
            done = subprocess.run(
                [*self._command, self.host, remote], stdin=file, stderr=subprocess.PIPE, check=False
            )
        self._check(done.returncode, done.stderr.decode(errors="replace"))

    def close(self) -> None:
        subprocess.run([*self._command, "-O", "exit", self.host], capture_output=True, check=False)

    def _check(self, code: int, said: str) -> None:
        last = "\n".join(said.strip().splitlines()[-_LAST_LINES:])
        if code == 255:
            why = f" ({last})" if last else ""
            raise AddError(
                f"ssh does not reach {self.host}{why}. Try ssh {self.host} yourself; "
                "SSH='ssh -p 2222' names options of your own."
            )
        if code:
            raise AddError(f"A step on {self.host} failed with exit code {code}: {last}")


@contextmanager
def reach(host: str, ssh: str) -> Iterator[RemoteShell]:
    if shutil.which(shlex.split(ssh)[0]) is None:
        raise AddError("There is no ssh on this machine: sudo apt install openssh-client.")
    with tempfile.TemporaryDirectory(prefix="ifd-add-") as folder:
        shell = RemoteShell(host, shlex.split(ssh), Path(folder))
        try:
            yield shell
        finally:
            shell.close()


def add(host: str, *, name: str, folder: str, ssh: str, address: str) -> None:
    """Raises AddError."""
    from django.conf import settings

    if settings.WIRE != "hub":
        raise AddError(
            "This inferdash is no hub yet: say make up BOXES=1 first (Settings, Boxes, Add says "
            "what that changes)."
        )
    with reach(host, ssh) as shell:
        _say(f"looking at {host}")
        there = RemoteFacts.read(shell.run(_PROBE, folder))
        if why := find_hindrance(there, host):
            raise AddError(why)
        with tempfile.TemporaryDirectory(prefix="ifd-bundle-") as scratch:
            bundle = _pack(there, Path(scratch))
            _say(f"copying {bundle.stat().st_size / 2**20:.0f} MiB to {there.folder}")
            unpack = (
                'mkdir -p "$1" && touch "$1/added-by-hub" && tar xzf - -C "$1" --strip-components=1'
            )
            shell.send(bundle, unpack, there.folder)
        _join(shell, there, name=name, address=address or there.came_from)


def _pack(there: RemoteFacts, folder: Path) -> Path:
    """Raises AddError."""
    from django.conf import settings

    _say(f"packing this release for {there.machine} and Python {there.python}")
    command = [sys.executable, "-m", "inferdash.service.bundle", "--to", str(folder)]
    command += ["--arch", there.machine, "--python", there.python]
    if there.packages == fingerprint(settings.FILES / "requirements.txt"):
        command.append("--no-wheels")
    done = subprocess.run(command, cwd=settings.FILES, capture_output=True, text=True, check=False)
    if done.returncode and "--no-wheels" not in command:
        # It may have internet of its own.
        _say("its packages cannot be fetched here; it will fetch them itself")
        command.append("--no-wheels")
        done = subprocess.run(
            command, cwd=settings.FILES, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise AddError(f"The release cannot be packed: {done.stderr.strip()[-500:]}")
    [path] = folder.glob("*.tar.gz")
    return path


def _join(shell: RemoteShell, there: RemoteFacts, *, name: str, address: str) -> None:
    """Raises AddError."""
    from django.utils import timezone

    from servers.lifecycle.links.decisions import let_in
    from servers.lifecycle.links.invitations import LinkError, invite_box, withdraw
    from servers.models import BoxLink

    try:
        invitation, token = invite_box(None, now=timezone.now(), address=address)
    except LinkError as error:
        raise AddError(str(error)) from error
    try:
        shell.run(_JOIN, there.folder, name, given=f"{token.write()}\n")
        _say("installing it there, which takes a minute or two")
        words = _hear(shell, there)
        link = BoxLink.objects.get(invitation=invitation)
        if link.words != words:
            raise AddError(
                f"The words differ: {shell.host} shows “{words}”, and this hub “{link.words}”. Another "
                "machine has used the token. It was not let in; refuse it under Settings, Boxes."
            )
        _say(f"both sides show: {words}")
        let_in(link, None)
    except LinkError as error:
        raise AddError(f"{error} (NAME=… calls it otherwise.)") from error
    except AddError:
        withdraw(invitation, None)
        raise
    _wait_for_link(link.pk, shell, there)


def _hear(shell: RemoteShell, there: RemoteFacts) -> str:
    """The six words that the box's join prints. Raises AddError."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        said = shell.run(_HEAR + "; true", there.folder).splitlines()
        for before, line in zip(said, said[1:], strict=False):
            if "these words must be the same" in before:
                return line.removeprefix("inferdash:").strip()
        if "added-box: it runs" not in said:
            last = "\n".join(said[-_LAST_LINES:])
            raise AddError(f"The join on {shell.host} has ended. It said:\n{last}")
        time.sleep(LOOK_EVERY)
    raise AddError(f"Nothing was heard of the join on {shell.host}: see {there.folder}/join.log.")


def _wait_for_link(pk: int, shell: RemoteShell, there: RemoteFacts) -> None:
    from servers.models import BoxLink

    until = time.monotonic() + HEARD_WITHIN
    while time.monotonic() < until:
        link = BoxLink.objects.get(pk=pk)
        if link.told_at is not None and link.joined_at and link.told_at > link.joined_at:
            _say(f"{link} is a box of this hub, and runs until {shell.host} restarts")
            return
        time.sleep(LOOK_EVERY)
    raise AddError(
        f"It was let in, but has said nothing over its link yet: see {there.folder}/join.log there."
    )


def _say(sentence: str) -> None:
    print(f"inferdash: {sentence}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make add-box", description=__doc__)
    # make gives them by variables, HOST by another name: it is also where pages listen.
    for name, usual, about in (
        ("host", "", "milo@10.0.0.2, or a name of your ssh's configuration"),
        ("name", "", "of the box; left out: its hostname"),
        ("folder", "inferdash", "there; relative to the home"),
        ("ssh", "ssh", "with options of your own"),
        ("address", "", "of this hub, as the box is to call it"),
    ):
        given = os.environ.pop(f"ADD_{name.upper()}", "")
        parser.add_argument(f"--{name}", default=given or usual, help=about)
    options = parser.parse_args()
    if not options.host:
        print("inferdash: say where: make add-box HOST=milo@10.0.0.2", file=sys.stderr)
        return 2
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inferdash.settings")
    django.setup()
    try:
        add(
            options.host, name=options.name, folder=options.folder, ssh=options.ssh,
            address=options.address,
        )  # fmt: skip
    except AddError as error:
        print(f"inferdash: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
