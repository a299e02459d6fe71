"""Answers that are asked for and thrown away: python -m tests.bench.drain URL STREAMS <REQUEST"""

import selectors
import socket
import sys
from urllib.parse import urlsplit


def drain(host: str, port: int, streams: int, request: bytes) -> None:
    """Until it is ended: who has had an answer asks for the next one."""
    with selectors.DefaultSelector() as waiting:
        for _number in range(streams):
            connection = socket.create_connection((host, port))
            connection.sendall(request)
            waiting.register(connection, selectors.EVENT_READ)
        print("reads", flush=True)
        while True:
            for key, _events in waiting.select():
                connection = key.fileobj  # type: ignore[assignment]
                if connection.recv(65536).endswith(b"\r\n0\r\n\r\n"):
                    connection.sendall(request)


if __name__ == "__main__":
    where = urlsplit(sys.argv[1])
    drain(where.hostname or "", where.port or 80, int(sys.argv[2]), sys.stdin.buffer.read())
