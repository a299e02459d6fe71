"""Processes that have a file open."""

import os
from collections.abc import Collection
from pathlib import Path


def find_openers(path: Path) -> list[tuple[int, str]]:
    """Pid and command of every other process that has the file open, as far as we may see them."""
    wanted = str(path.resolve())
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        if wanted in _list_open(process):
            found.append((int(process.name), _read_command(process)))
    return sorted(found)


def _list_open(process: Path) -> Collection[str]:
    try:
        with os.scandir(process / "fd") as entries:
            descriptors = [entry.path for entry in entries]
    except OSError:  # it has ended, or is another account's
        return ()
    paths = set()
    for each in descriptors:
        try:
            paths.add(str(Path(each).readlink()))
        except OSError:
            continue
    return paths


def _read_command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(word.decode(errors="replace") for word in words if word)
