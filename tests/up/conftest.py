import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import migrated
from tests.terminal import TerminalProgram


@pytest.fixture
def start() -> Iterator[Callable[..., TerminalProgram]]:
    running: list[TerminalProgram] = []

    def start(
        command: list[str], environment: dict[str, str], pass_fds: tuple[int, ...] = ()
    ) -> TerminalProgram:
        running.append(TerminalProgram(command, environment, pass_fds=pass_fds))
        return running[-1]

    yield start
    for each in running:
        if each.process.poll() is None:
            each.process.terminate()
            each.ends()
        os.close(each.terminal)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Migrated already: what takes longest of a first start is done."""
    migrated.put_into(tmp_path / "var")
    return tmp_path / "var"
