"""Who alerts are sent to, on sockets of their own: an HTTP server, and a mail server."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import PATIENCE


@dataclass(frozen=True, kw_only=True)
class Got:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class ReceiverResponse:
    status: int = 200
    body: bytes = b"ok"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Receiver:
    """Answers with the first of `answers` that is left, and then with 200."""

    port: int = 0
    got: list[Got] = field(default_factory=list)
    answers: list[ReceiverResponse] = field(default_factory=list)
    holds: threading.Event = field(default_factory=threading.Event)  # not set: it answers late
    came: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def receiver() -> Iterator[Receiver]:
    told = Receiver()
    told.holds.set()

    class WebhookHandler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            told.got.append(
                Got(method=self.command, path=self.path, headers=dict(self.headers), body=body)
            )
            told.came.set()
            told.holds.wait(PATIENCE)
            said = told.answers.pop(0) if told.answers else ReceiverResponse()
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), WebhookHandler)
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield told
    finally:
        told.holds.set()
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Postbox:
    port: int = 0
    letters: list[str] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    refuses: str = ""  # what it says to a recipient instead of taking it


@contextmanager
def postbox() -> Iterator[Postbox]:
    """As much of SMTP as takes a letter (RFC 5321)."""
    told = Postbox()

    class SmtpHandler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 postbox")
            while line := self.rfile.readline().decode().strip():
                if self._hears(line) == "QUIT":
                    return

        def _hears(self, line: str) -> str:
            word = line.split(maxsplit=1)[0].upper()
            if word == "RCPT" and told.refuses:
                self._say(told.refuses)
            elif word == "RCPT":
                told.recipients.append(line.partition(":")[2].strip("<> "))
                self._say("250 ok")
            elif word == "DATA":
                self._say("354 go on")
                told.letters.append(self._letter())
                self._say("250 taken")
            else:
                self._say("221 bye" if word == "QUIT" else "250 ok")
            return word

        def _letter(self) -> str:
            lines = []
            while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                lines.append(line)
            return "\n".join(lines)

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), SmtpHandler)
    told.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
