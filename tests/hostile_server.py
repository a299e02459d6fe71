"""A web server that does what none should: answers without an end, drop by drop, or packed."""

import socket
import socketserver
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

type Say = Callable[["Talk"], None]

DROP_EVERY = 0.02  # seconds: no pause that a reader's patience would notice


@dataclass(frozen=True, kw_only=True)
class Talk:
    """One request's connection."""

    line: str  # "GET /token HTTP/1.1"
    headers: str
    out: socket.socket
    is_over: threading.Event

    def send(self, status: str, body: bytes = b"", **headers: str) -> None:
        told = {"Content-Length": str(len(body)), "Connection": "close"}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self.out.sendall(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)

    def drip(self, begin: bytes, drop: bytes) -> None:
        """For ever, or until nobody reads it or the test is over."""
        self.out.sendall(begin)
        while not self.is_over.wait(DROP_EVERY):
            self.out.sendall(drop)

    def flood(self, begin: bytes, piece: bytes) -> None:
        self.out.sendall(begin)
        while not self.is_over.is_set():
            self.out.sendall(piece)


@dataclass
class HostileServer:
    """`says` maps a path, without its query, to what is done with who asks for it."""

    port: int = 0
    says: dict[str, Say] = field(default_factory=dict)
    otherwise: Say = lambda talk: talk.send("404 Not Found")  # noqa: E731
    asked: list[str] = field(default_factory=list)  # paths with their queries

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"


def bomb(mebibytes: int) -> bytes:
    """So many MiB of zeros, packed by gzip to a thousandth."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join(packing.compress(block) for _ in range(mebibytes)) + packing.flush()


def drip_headers(talk: Talk) -> None:
    talk.drip(b"HTTP/1.1 200 OK\r\n", b"X-Drop: x\r\n")


def drip_body(talk: Talk) -> None:
    talk.drip(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{", b" ")


def drip_moved(talk: Talk) -> None:
    talk.drip(b"HTTP/1.1 307 Moved\r\nLocation: /elsewhere\r\n\r\n", b" ")


def flood(talk: Talk) -> None:
    talk.flood(b"HTTP/1.1 200 OK\r\n\r\n", b" " * 65536)


def flood_moved(talk: Talk) -> None:
    talk.flood(b"HTTP/1.1 307 Moved\r\nLocation: /elsewhere\r\n\r\n", b" " * 65536)


@contextmanager
def hostile_server() -> Iterator[HostileServer]:
    told = HostileServer()
    is_over = threading.Event()

    class HostileHandler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline().decode("latin-1").strip()
            headers = "".join(
                iter(lambda: self.rfile.readline().decode("latin-1").strip("\r\n"), "")
            )
            if not line:
                return
            path = line.split()[1]
            told.asked.append(path)
            say = told.says.get(path.partition("?")[0], told.otherwise)
            try:
                say(Talk(line=line, headers=headers, out=self.connection, is_over=is_over))
            except OSError:
                return  # who asked has had enough

    class HostileTcpServer(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 64

    with HostileTcpServer(("127.0.0.1", 0), HostileHandler) as server:
        told.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=[0.05])
        thread.start()
        try:
            yield told
        finally:
            is_over.set()
            server.shutdown()
            thread.join()
