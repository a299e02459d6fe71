"""A Debian with systemd as its first process, in a container of the tests' Docker Engine.

It is on the engine's bridge, which leads nowhere: whatever it installs comes from what it is given.
"""

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import base_images
from tests.waiting import wait_until

SUITE = "trixie"
IMAGE = f"inferdash-test/systemd:{SUITE}"
PACKAGES = "python3,systemd,systemd-sysv,ca-certificates,make,procps"
# systemd wants the newer control groups, whichever the machine below has.
# What it is given beside Docker's usual: not all, which the machine below may not have itself.
CAPABILITIES = ("SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "SYSLOG", "DAC_READ_SEARCH", "SYS_BOOT")
BOOT = (
    "umount -R /sys/fs/cgroup; mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec /lib/systemd/systemd"
)


@dataclass(frozen=True, kw_only=True)
class ServiceMachine:
    host: str  # DOCKER_HOST
    name: str

    def run(self, command: str, *, fails: bool = False) -> str:
        """What it printed, as root's."""
        done = self._docker("exec", self.name, "sh", "-c", command)
        said = done.stdout + done.stderr
        assert bool(done.returncode) is fails, (
            f"{command}: {done.returncode}\n{said}\n{self.read_journal()}"
        )
        return said

    def read_journal(self) -> str:
        """Its last lines."""
        return self._docker("exec", self.name, "journalctl", "-n", "60", "--no-pager").stdout

    def asks(self, command: str) -> bool:
        return self._docker("exec", self.name, "sh", "-c", command).returncode == 0

    def waits_until(self, command: str) -> None:
        wait_until(
            lambda: self.asks(command), lambda: f"{command}\n{self.read_journal()}", every=0.2
        )

    def boots(self) -> None:
        self.waits_until("systemctl is-system-running | grep -Eq 'running|degraded'")

    def restarts(self) -> None:
        done = self._docker("restart", "--time", "30", self.name)
        assert done.returncode == 0, done.stderr
        self.boots()

    def takes(self, source: Path, target: str) -> None:
        done = self._docker("cp", str(source), f"{self.name}:{target}")
        assert done.returncode == 0, done.stderr

    def _docker(self, *words: str) -> subprocess.CompletedProcess[str]:
        return _docker(self.host, *words)


def _docker(host: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *words],
        env=os.environ | {"DOCKER_HOST": host},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def machine(host: str, *, image: str = IMAGE, packages: str = PACKAGES) -> Iterator[ServiceMachine]:
    """One that has booted, and sees this Docker Engine as its own."""
    base_images.build_base(host, SUITE, image, packages)
    socket = Path(host.removeprefix("unix://"))
    made = ServiceMachine(host=host, name=f"inferdash-test-systemd-{uuid.uuid4().hex[:8]}")
    words = ["--detach", "--name", made.name, "--stop-signal", "SIGRTMIN+3"]
    words += [f"--cap-add={each}" for each in CAPABILITIES]
    for each in ("seccomp", "apparmor", "systempaths"):
        words += ["--security-opt", f"{each}=unconfined"]
    words += ["--tmpfs", "/run", "--tmpfs", "/run/lock", "--env", "container=docker"]
    words += ["--volume", f"{socket}:/run/docker.sock"]
    done = _docker(host, "run", *words, image, "unshare", "--cgroup", "sh", "-c", BOOT)
    assert done.returncode == 0, done.stderr
    try:
        made.boots()
        group = socket.stat().st_gid
        if group and not made.asks(f"getent group {group}"):
            made.run(f"groupadd --gid {group} docker")
        yield made
    finally:
        _docker(host, "rm", "--force", "--volumes", made.name)
