"""A program on a terminal, as a person starts it: what it says, and Ctrl-C."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import termios
import threading
from pathlib import Path

import psutil

from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parent.parent


class TerminalProgram:
    """A program on a terminal of its own, and what it has said so far."""

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        *,
        patience: float = PATIENCE,
        pass_fds: tuple[int, ...] = (),
        folder: Path = ROOT,
    ) -> None:
        self.patience = patience
        self.terminal, slave = pty.openpty()
        termios.tcsetwinsize(slave, (50, 300))

        def take_terminal() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            # Whoever runs the tests in the background had Ctrl-C ignored for all its children.
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=take_terminal,
            pass_fds=pass_fds,
        )
        os.close(slave)
        self.said = ""
        self.heard = threading.Condition()
        self.ear = threading.Thread(target=self._listen, daemon=True)
        self.ear.start()

    def _listen(self) -> None:
        while True:
            try:
                data = os.read(self.terminal, 65536)
            except OSError:  # the other side is closed
                data = b""
            with self.heard:
                self.said += data.decode(errors="replace")
                self.heard.notify_all()
            if not data:
                return

    def waits_for(self, pattern: str, *, times: int = 1) -> re.Match[str]:
        def is_there() -> bool:
            return len(re.findall(pattern, self.said)) >= times or not self.ear.is_alive()

        with self.heard:
            self.heard.wait_for(is_there, self.patience)
            found = list(re.finditer(pattern, self.said))
        assert len(found) >= times, f"{pattern!r} was not said:\n{self.said}"
        return found[-1]

    def rests(self) -> None:
        """Until it does nothing but wait."""
        process = psutil.Process(self.process.pid)
        wait_until(
            lambda: process.status() == psutil.STATUS_SLEEPING,
            lambda: f"it comes to rest, and not:\n{self.said}",
        )

    def types(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def press_ctrl_c(self) -> None:
        self.types("\x03")

    def ends(self) -> int:
        code: int = self.process.wait(self.patience)
        self.ear.join(PATIENCE)
        return code

    def children(self) -> dict[str, psutil.Process]:
        """By what is typical of their commands."""
        found: dict[str, psutil.Process] = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                command = " ".join(child.cmdline())
            except psutil.NoSuchProcess:  # it has ended since, and may wait to be reaped
                continue
            for name in ("inferdash.up.web", "celery", "manage.py watch", "redis.sock"):
                if name in command:
                    found.setdefault(name, child)
        return found
