"""Shared memory on the box: what lies in /dev/shm, and whether a process still uses it."""

from dataclasses import dataclass
from pathlib import Path

# More is no engine's; and each costs a look at every process.
_MOST = 2000
_SHM = "/dev/shm/"  # noqa: S108 - looked at, not written to
_BLOCK = 512  # bytes, whatever the file system's own block is


@dataclass(frozen=True, kw_only=True)
class Segment:
    path: str
    bytes: int  # that are really taken
    mapped: bool  # by a process; also where that cannot be seen


def segments(root: Path = Path("/")) -> list[Segment]:
    """Every file below the box's /dev/shm; nothing where there is none.

    `root` is where this process sees the box's "/". Rule: tmpfs frees a file once it is
    unlinked and no process maps it or has it open.
    """
    sizes: dict[Path, int] = {}
    for folder, _folders, names in (root / "dev/shm").walk():
        for name in names[: _MOST - len(sizes)]:
            try:
                sizes[folder / name] = (folder / name).lstat().st_blocks * _BLOCK
            except OSError:
                continue  # gone meanwhile
    if not sizes:
        return []
    used, sees_all = _used(root)
    found = []
    for path, size in sizes.items():
        on_box = f"/{path.relative_to(root)}"
        found.append(Segment(path=on_box, bytes=size, mapped=not sees_all or on_box in used))
    return found


def _used(root: Path) -> tuple[set[str], bool]:
    """The files of /dev/shm that processes map or have open; False if some could not be seen."""
    used: set[str] = set()
    sees_all = True
    for process in (root / "proc").glob("[0-9]*"):
        if process.name == "1":
            continue  # the first process shares memory with no engine, and often hides itself
        try:
            with (process / "maps").open(errors="replace") as maps:
                used |= {_whole(name) for line in maps if (name := line.partition(_SHM)[2])}
            targets = (str(each.readlink()) for each in (process / "fd").iterdir())
            used |= {_whole(name) for each in targets if (name := each.partition(_SHM)[2])}
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        except OSError:
            sees_all = False
    return used, sees_all


def _whole(name: str) -> str:
    return _SHM + name.rstrip("\n").removesuffix(" (deleted)")
