"""The parent's side of a download: starts the child, hears what it tells, kills it."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from servers.host.weights.fetch.places import DownloadSpec

_CHECKOUT = Path(__file__).resolve().parents[4]
_LAST_WORDS = 2000  # characters of what it says on its way out


class DownloadChild:
    """A download that goes on until kill(), or until this process ends."""

    def __init__(self, job: DownloadSpec, heard: Callable[[], None] = lambda: None) -> None:
        """`heard` is called whenever there is something new to take(). Raises OSError."""
        self._heard = heard
        self._said: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "servers.host.weights.fetch.work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=_CHECKOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            text=True,
        )
        self._write(job.to_json())
        self._errors = ""
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def take(self) -> list[Mapping[str, Any]]:
        """What it has said since the last time."""
        found = []
        while not self._said.empty():
            found.append(self._said.get())
        return found

    def limit(self, pace: int) -> None:
        """Bytes a second from now on; 0: as fast as can be."""
        self._write({"limit": pace})

    @property
    def has_ended(self) -> bool:
        """And everything that it said is there to be taken."""
        return self._process.poll() is not None and not any(
            thread.is_alive() for thread in self._threads
        )

    @property
    def last_words(self) -> str:
        """How it ended where it did not say so itself."""
        line = self._errors.strip().splitlines()[-1:] or [f"exit code {self._process.returncode}"]
        return line[0]

    def kill(self) -> None:
        """At once, and wait for it: what it has written stays, and is gone on from."""
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                _close(pipe)

    def _write(self, said: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(said) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it has ended, and how is heard

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._said.put(json.loads(line))
            self._heard()
        self._heard()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors = (self._errors + line)[-_LAST_WORDS:]
        self._heard()


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:
        return  # what was not read by the child any more
