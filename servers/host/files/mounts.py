"""Mount options of the box's file systems: nosuid, nodev."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from servers.host.files import paths

_ESCAPED = re.compile(r"\\([0-7]{3})")
# Whose server may be gone: whoever looks at a file there then waits for ever.
_REMOTE = re.compile(r"nfs|cifs|smb|fuse|ceph|9p|lustre|gluster|beegfs|afs|gpfs|virtiofs")


@dataclass(frozen=True, kw_only=True)
class MountPoint:
    path: str
    options: frozenset[str]
    kind: str  # ext4, nfs4, …


def table(*, root: Path = Path("/")) -> list[MountPoint]:
    """Every mount below `root` with the path that the box has for it, in the kernel's order.

    Empty where the kernel does not tell. Rule: proc_pid_mountinfo(5).
    """
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        before, _dash, after = line.partition(" - ")
        columns = before.split(" ")
        seen = PurePosixPath(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), columns[4]))
        if seen.is_relative_to(root):
            path = str(PurePosixPath("/") / seen.relative_to(root))
            options = frozenset(columns[5].split(","))
            found.append(MountPoint(path=path, options=options, kind=after.partition(" ")[0]))
    return found


def find_mount(path: str, mounts: list[MountPoint]) -> MountPoint | None:
    """The mount that a path of the box lies on; None where none is known."""
    inside = f"{PurePosixPath(path)}/"
    # A box of many containers has hundreds: letters compare sooner than paths.
    holding = [each for each in mounts if inside.startswith(f"{each.path.rstrip('/')}/")]
    # Of two on one folder the later one hides the other.
    return (
        max(enumerate(holding), key=lambda each: (len(each[1].path), each[0]))[1]
        if holding
        else None
    )


def real_place(path: str, mounts: list[MountPoint], *, root: Path = Path("/")) -> str:
    """Where a path leads; "" where there is nothing. On a disk of the network it is not looked for."""
    found = find_mount(path, mounts)
    if found is not None and _REMOTE.search(found.kind):
        return path
    if paths.exists(path, root=root) is False:
        return ""
    try:
        return str(paths.resolve(path, root=root))
    except paths.PathError:
        return path
