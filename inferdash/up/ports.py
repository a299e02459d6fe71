"""The sockets that people connect to, bound once so that a restart of web refuses nobody."""

import errno
import ipaddress
import socket

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
