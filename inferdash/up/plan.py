"""The plan of the supervisor: what to start and print."""

import getpass
import json
import os
import signal
import socket
from dataclasses import asdict, dataclass, field
from pathlib import Path

from inferdash.up import ports
from inferdash.up import redis as redis_server

WORKER_THREADS = 4


@dataclass(frozen=True, kw_only=True)
class Program:
    name: str
    command: list[str]
    descriptors: list[int]  # open files that it inherits
    is_last_to_stop: bool = False
    untold: str = ""  # a pattern of lines that tell a person nothing
    stop_signal: int = signal.SIGTERM
    grace: float = 15.0  # seconds from it to SIGKILL, as in a service's unit
    longest_pause: float = 30.0  # seconds before it is started again, however often it dies


@dataclass(frozen=True, kw_only=True)
class SupervisorPlan:
    address: str  # empty without a web, on a further box
    loopback: str
    admin_link: str  # empty where an admin exists
    warnings: list[str]
    programs: list[Program]
    notes: list[str] = field(default_factory=list)
    # What takes its place where a program of its own asks it to end and begin anew (SIGUSR1).
    again: list[str] = field(default_factory=list)
    farewell: str = "engine containers keep running"


def address(host: str, port: int, *, is_tls: bool = False) -> str:
    scheme = "https" if is_tls else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def loopback(host: str, port: int, *, is_tls: bool = False) -> str:
    """The address that only this machine can open."""
    return address(host if ports.is_loopback(host) else "127.0.0.1", port, is_tls=is_tls)


def programs(
    *,
    python: str,
    root: Path,
    queue: str,
    sockets: list[int],
    behind_tls: bool,
    redis: list[str] | None,
) -> list[Program]:
    web = [python, "-m", "inferdash.up.web", "--sockets", ",".join(map(str, sockets))]
    if behind_tls:
        web.append("--proxy-headers")
    level = os.environ.get("LOG_LEVEL", "").strip() or "INFO"
    worker = [python, *worker_words(queue, threads=WORKER_THREADS, level=level)]
    watcher = [python, str(root / "manage.py"), "watch"]
    started = [
        Program(name="web", command=web, descriptors=sockets),
        Program(name="worker", command=worker, descriptors=[]),
        Program(name="watcher", command=watcher, descriptors=[]),
    ]
    if redis is not None:
        own = Program(
            name="redis",
            command=redis,
            descriptors=[],
            is_last_to_stop=True,
            untold=redis_server.GREETINGS,
            grace=redis_server.GRACE,
        )
        started.insert(0, own)
    return started


def worker_words(queue: str, *, threads: int, level: str) -> list[str]:
    """What a Python is told that is to be the worker of a box."""
    words = ["-m", "celery", "--quiet", "-A", "inferdash", "worker", "-Q", queue]
    words += ["--pool", "threads", "--concurrency", str(threads), "--loglevel", level]
    return [*words, "--without-gossip", "--without-mingle", "--without-heartbeat"]


def warnings(host: str, port: int, *, is_encrypted: bool) -> list[str]:
    """`is_encrypted`: by inferdash itself, or by a proxy on this machine."""
    if ports.is_loopback(host):
        return []
    named = os.environ.get("INFERDASH_ALLOWED_HOSTS", "").strip()
    said = []
    if not named:
        said.append(
            f"nobody can open it by this machine's name yet: say which names people type, such as "
            f"INFERDASH_ALLOWED_HOSTS={socket.gethostname()},{_own_address()} (in .env)"
        )
    if not is_encrypted:
        said.append(without_tls(port))
    return said


def without_tls(port: int) -> str:
    return (
        f"port {port} is open to the network without TLS: whoever listens on the way reads passwords "
        "and keys. Write TLS=self into the settings and start again, or TLS_CERT and TLS_KEY for a "
        "certificate that you have; SECURITY.md shows more ways"
    )


def tunnel(port: int) -> str | None:
    """The command for the laptop of the person who came here over SSH; None for others."""
    # client address, client port, server address, server port
    parts = os.environ.get("SSH_CONNECTION", "").split()
    if len(parts) != 4:
        return None
    option = "" if parts[3] == "22" else f"-p {parts[3]} "
    return f"ssh {option}-L {port}:127.0.0.1:{port} {getpass.getuser()}@{parts[2]}"


def _own_address() -> str:
    """The address that this machine's packets to elsewhere carry; nothing is sent to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "its-address"
        return str(probe.getsockname()[0])


def write(plan: SupervisorPlan, *, keep_open: list[int]) -> int:
    """Write the plan to an open file that the next program inherits, with the others."""
    # Not to its arguments, which every user of the machine can read: it holds the admin's link.
    descriptor = os.memfd_create("inferdash-plan", 0)
    os.write(descriptor, json.dumps(asdict(plan)).encode())
    for kept in (descriptor, *keep_open):
        os.set_inheritable(kept, True)
    return descriptor


def read(descriptor: int) -> SupervisorPlan:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with os.fdopen(descriptor) as file:
        parts = json.load(file)
    parts["programs"] = [Program(**program) for program in parts["programs"]]
    return SupervisorPlan(**parts)
