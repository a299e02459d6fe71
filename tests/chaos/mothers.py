"""The mothers of workers and watchers: one for each environment, kept from test to test."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.terminal import ROOT

# Differs from test to test, and none of theirs reads it.
OF_PYTEST = "PYTEST_CURRENT_TEST"


class Mothers:
    """Importing inferdash takes more of a core than all else that most of these tests do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder  # of each test in turn
        self._processes: dict[frozenset[tuple[str, str]], subprocess.Popen[bytes]] = {}

    @property
    def log(self) -> Path:
        """What the processes say."""
        return self.folder / "processes.log"

    def empty(self) -> None:
        """For the next test; the folder stays where the mothers know it."""
        shutil.rmtree(self.folder)
        self.folder.mkdir(mode=0o700)
        self.log.touch()

    def give_birth(self, kind: str, environment: dict[str, str]) -> int:
        """The id of a new "worker" or "watcher"."""
        mother = self._find(environment)
        assert mother.stdin is not None
        assert mother.stdout is not None
        mother.stdin.write(f"{kind}\n".encode())
        mother.stdin.flush()
        return int(mother.stdout.readline())

    def _find(self, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
        key = frozenset((name, said) for name, said in environment.items() if name != OF_PYTEST)
        if key not in self._processes:
            with self.log.open("ab") as output:
                self._processes[key] = subprocess.Popen(
                    [sys.executable, "-m", "tests.chaos.mother", str(self.log)],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                )
        return self._processes[key]

    def close(self) -> None:
        for mother in self._processes.values():
            mother.communicate()
