import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal import Started


@pytest.fixture
def start() -> Iterator[Callable[..., Started]]:
    running: list[Started] = []

    def start(
        command: list[str], environment: dict[str, str], pass_fds: tuple[int, ...] = ()
    ) -> Started:
        running.append(Started(command, environment, pass_fds=pass_fds))
        return running[-1]

    yield start
    for each in running:
        if each.process.poll() is None:
            each.process.terminate()
            each.ends()
        os.close(each.terminal)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "var"
