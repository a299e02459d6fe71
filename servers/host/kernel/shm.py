"""Shared memory on the box, and files that its processes have open or mapped, as far as they are seen."""

import os
import time
from collections.abc import Iterable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from servers.host.files import paths

# More is no engine's; and each costs a look at every process.
_MOST = 2000
_SHM = "/dev/shm/"  # noqa: S108 - looked at, not written to
_A_MOMENT = 0.1  # seconds; whoever waits for a disk waits less
_BLOCK = 512  # bytes, whatever the file system's own block is


@dataclass(frozen=True, kw_only=True)
class SharedSegment:
    path: str
    bytes: int  # that are really taken
    mapped: bool  # by a process; also where that cannot be seen
    changed_at: float = field(default=0.0, compare=False)  # unix seconds
    inode: int = field(default=0, compare=False)  # the same name may be given again
    may_delete: bool = field(default=False, compare=False)


class ShmError(Exception):
    """Shared memory was not deleted; the text says why."""


def segments(root: Path = Path("/")) -> list[SharedSegment]:
    """Every file below the box's /dev/shm; nothing where there is none.

    `root` is where this process sees the box's "/". Rule: tmpfs frees a file once it is
    unlinked and no process maps it or has it open.
    """
    found_at: dict[Path, os.stat_result] = {}
    for folder, _folders, names in (root / "dev/shm").walk():
        if not paths.is_text(str(folder)):
            continue
        texts = [name for name in names if paths.is_text(name)]
        for name in texts[: _MOST - len(found_at)]:
            try:
                found_at[folder / name] = (folder / name).lstat()
            except OSError:
                continue  # gone meanwhile
    if not found_at:
        return []
    used, sees_all = _list_used(root)
    found = []
    me = os.geteuid()
    for path, stat in found_at.items():
        on_box = f"/{path.relative_to(root)}"
        found.append(
            SharedSegment(
                path=on_box,
                bytes=stat.st_blocks * _BLOCK,
                mapped=not sees_all or on_box in used,
                changed_at=max(stat.st_mtime, stat.st_ctime),
                inode=stat.st_ino,
                may_delete=me in (0, stat.st_uid) and os.access(path.parent, os.W_OK),
            )
        )
    return found


def delete(wanted: Iterable[SharedSegment], root: Path = Path("/")) -> tuple[int, int]:
    """Delete those that are still the same files and that still nobody uses.

    Returns how many, and their bytes. Raises ShmError where the kernel refuses one.
    """
    there = {each.path: each for each in segments(root)}
    count = size = 0
    for each in wanted:
        now = there.get(each.path)
        if now is None or now.mapped or now.inode != each.inode:
            continue
        try:
            (root / each.path.lstrip("/")).unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ShmError(f"{each.path} cannot be deleted: {error.strerror}.") from error
        count, size = count + 1, size + now.bytes
    return count, size


def _list_used(root: Path) -> tuple[set[str], bool]:
    """The files of /dev/shm that processes map or have open; False if some could not be seen."""
    used: set[str] = set()
    sees_all = True
    for process in (root / "proc").glob("[0-9]*"):
        if process.name == "1":
            continue  # the first process shares memory with no engine, and often hides itself
        try:
            if is_stuck(process):
                sees_all = False
                continue
            with (process / "maps").open(errors="replace") as maps:
                used |= {_whole(name) for line in maps if (name := line.partition(_SHM)[2])}
            targets = (_target(each) for each in (process / "fd").iterdir())
            used |= {_whole(name) for each in targets if (name := each.partition(_SHM)[2])}
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        except OSError:
            sees_all = False
    return used, sees_all


def is_stuck(process: Path) -> bool:
    """Whether it hangs in the kernel: a look at its memory's map could then wait for ever."""
    if not _waits_in_kernel(process):
        return False
    time.sleep(_A_MOMENT)
    return _waits_in_kernel(process)


def _waits_in_kernel(process: Path) -> bool:
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "D"


def _target(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""  # closed meanwhile; the process's others count all the same


def _whole(name: str) -> str:
    return _SHM + name.rstrip("\n").removesuffix(" (deleted)")


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
