"""Listening sockets of processes."""

from collections.abc import Collection

import psutil

from servers.host.kernel.proc import Kernel, Processes


def listener(port: int) -> str | None:
    """ "python (pid 1234)"; None when nobody does, or when the kernel does not tell us who."""
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return None
    for connection in connections:
        address = connection.laddr
        if connection.status != psutil.CONN_LISTEN or not address or address.port != port:
            continue
        if connection.pid is None:
            return None
        try:
            return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
        except psutil.NoSuchProcess:
            return None
    return None


def list_listening_sockets(pids: Collection[int]) -> tuple[tuple[int, str, int], ...]:
    """Process, address and port of each TCP socket on which one of these listens, by port.

    Nothing where the kernel does not tell us whose sockets are (another user's processes, without
    root).
    """
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return ()
    found = {
        (each.pid, each.laddr.ip, each.laddr.port)
        for each in connections
        if each.status == psutil.CONN_LISTEN and each.laddr and each.pid and each.pid in pids
    }
    return tuple(sorted(found, key=lambda each: (each[2], each[1])))


def container_on(port: int, kernel: Kernel) -> str | None:
    """The container, by its 64 digits, of the program that listens on a port of this box.

    "" for one outside containers; None when nobody listens, or the kernel does not tell us who.
    """
    try:
        connections = psutil.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return None
    for each in connections:
        if each.status != psutil.CONN_LISTEN or not each.laddr or each.laddr.port != port:
            continue
        found = Processes(kernel).read({each.pid}) if each.pid else []
        return (found[0].container or "") if found else None
    return None
