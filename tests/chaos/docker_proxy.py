"""A Unix socket in front of Docker's that sees every call, and stops the world at one of them."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.unix_proxy import UnixProxy, shut

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


class DockerProxy(UnixProxy):
    """`act` is called at a call of that name: before Docker hears of it, or after it has answered
    and before the caller hears of that. Then it lets go of the call's connection.
    """

    def __init__(self, path: Path, target: str) -> None:
        super().__init__(path, target)
        self.calls: list[str] = []
        self.is_deaf = False  # events are held back: the connection stays and says nothing
        self._at: Step | None = None
        self._act: Callable[[], None] = lambda: None

    def stop_at(self, step: Step, act: Callable[[], None]) -> None:
        self._at, self._act = step, act

    def carry(self, client: socket.socket, target: socket.socket) -> None:
        _Connection(self, client, target).run()

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
            # A question about the past is answered, and ends.
            self.is_events = name == "GET /events" and b"until=" not in head
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
        shut(self.client, self.docker)
