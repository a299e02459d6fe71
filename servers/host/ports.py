"""Who listens on a port of this box."""

import psutil


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
