"""The plan of the supervisor: what to start and print, and the sockets that people connect to."""

import errno
import getpass
import ipaddress
import json
import os
import socket
from dataclasses import asdict, dataclass, field
from pathlib import Path

BACKLOG = 2048


class PortError(Exception):
    """Why the address cannot be used, and how to choose another."""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_every_address(host: str) -> bool:
    return host in ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound


def listen(host: str, port: int) -> list[socket.socket]:
    """Bind the address; and the loopback one, which the first admin's link needs."""
    hosts = [host] if is_loopback(host) or is_every_address(host) else [host, "127.0.0.1"]
    return [_bound(name, port) for name in hosts]


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise PortError(
            f"HOST is {host!r}, which is no address of this machine ({error.strerror}). "
            "Leave it out for this machine only, or say HOST=0.0.0.0 for the team."
        ) from error
    listening = socket.socket(family, kind, protocol)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise PortError(_why_not(error, host, port)) from error
    return listening


def _why_not(error: OSError, host: str, port: int) -> str:
    other = f"Choose another one: PORT={8471 if port == 8470 else port + 1} make up."
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is taken by {holder(port)}. {other}"
    if error.errno == errno.EACCES:
        return f"port {port} is one that only root may open. {other}"
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            f"HOST is {host}, which is no address of this machine. "
            "Leave it out for this machine only, or say HOST=0.0.0.0 for the team."
        )
    return f"port {port} on {host} cannot be opened: {error.strerror}. {other}"


def holder(port: int) -> str:
    """Who listens on the port, as far as the kernel tells this user."""
    import psutil

    for connection in psutil.net_connections(kind="tcp"):
        if connection.status != psutil.CONN_LISTEN or connection.laddr[1:] != (port,):
            continue
        if connection.pid is None:
            break
        try:
            process = psutil.Process(connection.pid)
            command = " ".join(process.cmdline())
            return f"{process.name()} (pid {process.pid}, {process.username()}: {command[:120]})"
        except psutil.Error:
            return f"pid {connection.pid}"
    return "a process of another user or a container (`sudo ss -ltnp` names it)"


WORKER_THREADS = 4
# Redis calls its greetings warnings, and warns of what only matters to one that saves files.
_GREETINGS = "oO0OoO0|(Redis|Valkey) version=|Configuration loaded|Server initialized|overcommit"


@dataclass(frozen=True, kw_only=True)
class Program:
    name: str
    command: list[str]
    descriptors: list[int]  # open files that it inherits
    is_last_to_stop: bool = False
    untold: str = ""  # a pattern of lines that tell a person nothing


@dataclass(frozen=True, kw_only=True)
class SupervisorPlan:
    address: str
    loopback: str
    admin_link: str  # empty where an admin exists
    warnings: list[str]
    programs: list[Program]
    notes: list[str] = field(default_factory=list)
    farewell: str = "engine containers keep running"


def address(host: str, port: int, *, is_tls: bool = False) -> str:
    scheme = "https" if is_tls else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def loopback(host: str, port: int, *, is_tls: bool = False) -> str:
    """The address that only this machine can open."""
    return address(host if is_loopback(host) else "127.0.0.1", port, is_tls=is_tls)


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
            untold=_GREETINGS,
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
    if is_loopback(host):
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
