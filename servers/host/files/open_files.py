"""Open files of the box's processes, as far as they can be seen."""

import os
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from servers.host.kernel.shm import is_stuck


def holders(wanted: Set[tuple[int, int]], proc: Path) -> list[str]:
    """Processes that have a file open or mapped, of those with these devices and inodes.

    `proc` is where this process sees the box's /proc. Whoever belongs to somebody else is left out.
    """
    found = []
    for process in proc.glob("[0-9]*"):
        try:
            if not is_stuck(process) and wanted & _list_open_files(process):
                name = (process / "comm").read_text(errors="replace").strip()
                found.append(f"{name} (process {process.name})")
        except OSError:
            continue  # it has ended, or belongs to somebody else
    return sorted(found)


def _list_open_files(process: Path) -> set[tuple[int, int]]:
    """Device and inode of the files that a process maps or has open."""
    held = set()
    with (process / "maps").open(errors="replace") as maps:
        for line in maps:
            _span, _may, _at, device, inode, *_name = line.split(maxsplit=5)
            if inode != "0":
                major, minor = device.split(":")
                held.add((os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    for each in (process / "fd").iterdir():
        with suppress(OSError):
            seen = each.stat()
            held.add((seen.st_dev, seen.st_ino))
    return held
