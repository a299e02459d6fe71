"""Python with inferdash's models at hand, without the second that an interpreter takes to get there.

As a program it is the mother: she reads a line of JSON a piece of code, runs it in a child of hers,
and answers with how it ended and what it printed.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from contextlib import suppress

from tests.terminal import ROOT
from tests.waiting import PATIENCE

PREPARE = """
import json
import django
django.setup()
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.utils import timezone
from servers import events
from servers.state import samples as box_samples
from servers.models import *
from servers.lifecycle.runs import starts
from servers.models.runs.run import RunState, DesiredState
from tests import factories, samples
# A password of a test is kept so that the web process can check it, but in no time.
PBKDF2PasswordHasher.iterations = 1
"""


class Shell:
    """One process for all that is run in it; `close` ends it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, code: str) -> str:
        """What it prints. Raises CalledProcessError with a traceback on stderr."""
        with self._lock:
            process = self._mother()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(code).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline() or "[1, null]")
        ended, said = answer
        if ended:
            raise subprocess.CalledProcessError(ended, [sys.executable, "-c", code], said)
        return str(said)

    def _mother(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.shell"],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process

    def close(self) -> None:
        if self._process is not None:
            with suppress(BrokenPipeError):
                self._process.communicate(timeout=PATIENCE)


def main() -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    exec(PREPARE, names)  # noqa: S102
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as said:
            child = os.fork()
            if not child:
                _run(json.loads(line), names, said.fileno())
            _pid, status = os.waitpid(child, 0)
            said.seek(0)
            print(json.dumps([os.waitstatus_to_exitcode(status), said.read()]), file=answers)


def _run(code: str, names: dict[str, object], output: int) -> None:
    os.dup2(output, 1)
    ended = 1
    try:
        exec(compile(code, "<shell>", "exec"), names)  # noqa: S102
        sys.stdout.flush()
        ended = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(ended)


if __name__ == "__main__":
    main()
