"""The page cache of the machine that tests run on. There is one, for all processes of tests."""

import fcntl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docker_engine import FOLDER

PAGES = 2048


@contextmanager
def to_itself() -> Iterator[None]:
    """Nobody else's test drops it meanwhile."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "page-cache.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Callable[[], int]]:
    """How many pages of a file of ours the kernel keeps, of PAGES."""
    path = tmp_path / "weights"

    def pages() -> int:
        asked = ["fincore", "--noheadings", "--bytes", "--output", "PAGES", str(path)]
        return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)

    # Held open: a file in nobody's use may lose its pages with its inode.
    with to_itself(), path.open("wb") as file:
        file.write(b"x" * (PAGES * 4096))
        file.flush()
        assert pages() == PAGES
        yield pages
