"""What the tests need of the machine: installed where this runs as root, else asked for.

`python -m tests.machine` says nothing where all is there.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Need:
    package: str  # of the distribution
    programs: tuple[str, ...] = ()  # any one of them will do
    files: tuple[str, ...] = ()  # patterns below /; any one of them will do
    why: str

    def is_met(self) -> bool:
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        if any(shutil.which(program, path=path) for program in self.programs):
            return True
        return any(next(Path("/").glob(pattern), None) for pattern in self.files)


NEEDS = (
    Need(package="docker.io", programs=("dockerd",), why="the tests' own Docker Engine"),
    # Debian 13 parts it from the engine; elsewhere there is no such package, and no need.
    Need(package="docker-cli", programs=("docker",), why="the tests' own Docker Engine"),
    Need(package="iptables", programs=("iptables",), why="its bridge network"),
    Need(package="debootstrap", programs=("debootstrap",), why="images without a registry"),
    Need(package="docker-compose", programs=("docker-compose",), why="the compose installation"),
    Need(package="redis-server", programs=("redis-server", "valkey-server"), why="messages"),
    Need(
        package="postgresql",
        programs=("postgres",),
        files=("usr/lib/postgresql/*/bin/postgres",),
        why="the other database",
    ),
    Need(package="openssh-client", programs=("ssh-keyscan",), why="links of further boxes"),
    Need(package="openssh-server", programs=("sshd",), why="links of further boxes"),
    # Without the windows that nobody sees here: a third less of the processor than the whole one.
    Need(
        package="chromium-headless-shell",
        programs=("chromium-headless-shell", "chromium"),
        why="the browser tests",
    ),
    Need(
        package="fonts-dejavu-core",
        files=("usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",),
        why="legible screenshots",
    ),
    Need(package="gcc", programs=("gcc",), why="the stand-in NVML library"),
    Need(
        package="libc6-dev",
        files=("usr/include/stdlib.h",),
        why="the stand-in NVML library",
    ),
    Need(package="iproute2", programs=("ip",), why="the tests' own network"),
    Need(package="faketime", programs=("faketime",), why="boxes whose clocks are wrong"),
    Need(package="slirp4netns", programs=("slirp4netns",), why="packages, from that network"),
)

# Debian asks it whether a package may start its services.
POLICY = Path("/usr/sbin/policy-rc.d")


def missing() -> list[Need]:
    return [need for need in NEEDS if not need.is_met()]


def main() -> int:
    wanted = missing()
    if not wanted:
        return 0
    packages = [need.package for need in wanted]
    reasons = "\n".join(f"  {need.package}: {need.why}" for need in wanted)
    if may_not := _refusal():
        # The tests that need them list themselves under NOT RUN, and make up the exit code.
        print(
            f"The tests need more of this machine ({may_not}):\n{reasons}\n"
            f"  sudo apt install {' '.join(packages)}",
            file=sys.stderr,
        )
        return 0
    print(
        f"The tests need more of this machine. Installing with apt, for all of its users"
        f" (INSTALL=0 refuses):\n{reasons}",
        flush=True,
    )
    with _services_stay_off():
        _apt(["update", "-qq"])
        _apt(["install", "-y", "-qq", "--no-install-recommends", *_available(packages)])
    left = [f"{need.package} ({need.why})" for need in missing()]
    if left:
        print(f"still missing: {', '.join(left)}", file=sys.stderr)
    return 0


def _refusal() -> str | None:
    """Why nothing can be installed from here."""
    if os.environ.get("INSTALL") == "0":
        return "INSTALL=0"
    if os.geteuid() != 0:
        return "only root can install it"
    return None if shutil.which("apt-get") else "it has no apt"


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """Docker, Redis and PostgreSQL start with their installation; here only their programs are used.

    See /usr/share/doc/init-system-helpers/README.policy-rc.d.gz: 101 forbids it.
    """
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def _apt(arguments: list[str]) -> None:
    command = ["apt-get", *arguments]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        print(f"`{' '.join(command)}` failed:\n{result.stdout}{result.stderr}", file=sys.stderr)


def _available(packages: list[str]) -> list[str]:
    """apt installs none of a list that names one it does not have."""
    known = []
    for package in packages:
        policy = subprocess.run(
            ["apt-cache", "policy", package], capture_output=True, text=True, check=False
        )
        if "Candidate:" in policy.stdout and "Candidate: (none)" not in policy.stdout:
            known.append(package)
    return known


if __name__ == "__main__":
    sys.exit(main())
