"""A Unix socket in front of Docker's that sees every call, and stops the world at one of them."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

_RECEIVE = 1 << 18
_BODY = re.compile(rb"(?im)^content-length:\s*(\d+)")

type Moment = Literal["before", "after"]
type Step = tuple[str, Moment]


def named(head: bytes) -> str:
    """ "POST /containers/ID/start": a call without API version, query and what differs each time."""
    method, target, _rest = head.split(b" ", 2)
    path = target.decode().partition("?")[0]
    path = re.sub(r"^/v[\d.]+", "", path)
    path = re.sub(r"(?<=/containers/)(?!create|json)[^/]+", "ID", path)
    path = re.sub(r"(?<=/images/)(?!create|json).+(?=/json)", "NAME", path)
    return f"{method.decode()} {path}"


@dataclass
class DockerProxy:
    """`act` is called at a call of that name: before Docker hears of it, or after it has answered
    and before the caller hears of that. Then it lets go of the call's connection.
    """

    path: Path
    target: str
    calls: list[str] = field(default_factory=list)
    is_deaf: bool = False  # events are held back: the connection stays and says nothing

    def __post_init__(self) -> None:
        self.host = f"unix://{self.path}"
        self._at: Step | None = None
        self._act: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)

    def stop_at(self, step: Step, act: Callable[[], None]) -> None:
        self._at, self._act = step, act

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # close() alone does not wake a thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """End every connection there is, as a Docker that goes away does."""
        with self._lock:
            several = list(self._open)
        for each in several:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _address = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        docker = socket.socket(socket.AF_UNIX)
        with client, docker, contextlib.suppress(OSError):
            docker.connect(self.target.removeprefix("unix://"))
            with self._lock:
                self._open |= {client, docker}
            try:
                _Connection(self, client, docker).run()
            finally:
                for each in (client, docker):
                    with contextlib.suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)
                with self._lock:
                    self._open -= {client, docker}

    def reached(self, name: str, moment: Moment) -> bool:
        """Note the call; whether it was the one, at which the connection ends."""
        with self._lock:
            if moment == "before":
                self.calls.append(name)
            is_here = self._at == (name, moment)
            if is_here:
                self._at = None
        if is_here:
            self._act()
        return is_here


@dataclass
class _Connection:
    proxy: DockerProxy
    client: socket.socket
    docker: socket.socket
    unanswered: str = ""  # the call of which nothing has come back so far
    is_events: bool = False

    def run(self) -> None:
        back = threading.Thread(target=self._answers, daemon=True)
        back.start()
        buffer = b""
        while True:
            while b"\r\n\r\n" not in buffer:
                more = self.client.recv(_RECEIVE)
                if not more:
                    return
                buffer += more
            head, _blank, body = buffer.partition(b"\r\n\r\n")
            length = int(found[1]) if (found := _BODY.search(head)) else 0
            while len(body) < length:
                body += self.client.recv(_RECEIVE)
            body, buffer = body[:length], body[length:]
            name = named(head)
            self.is_events = name == "GET /events"
            if self.proxy.reached(name, "before"):
                return
            self.unanswered = name
            self.docker.sendall(head + b"\r\n\r\n" + body)

    def _answers(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.docker.recv(_RECEIVE):
                name, self.unanswered = self.unanswered, ""
                if name and self.proxy.reached(name, "after"):
                    break
                if not (self.is_events and self.proxy.is_deaf and not name):
                    self.client.sendall(data)
        for each in (self.client, self.docker):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
