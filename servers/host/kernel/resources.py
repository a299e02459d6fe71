"""Host resources that starts need: disks, ports, cgroups, shared memory, page cache, clock, NVIDIA's toolkit."""

import os
import re
import time
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from servers.host.docker import throwaway
from servers.host.docker.containers import ContainerError, DockerContainers
from servers.host.docker.throwaway import ContainerCommand
from servers.host.files import paths
from servers.host.kernel.proc import Kernel

_LOCAL = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")
_LISTENS = "0A"  # TCP_LISTEN, in the fourth column of /proc/net/tcp
_SHM = "/dev/shm"  # noqa: S108 - looked at, not written to
# Where the container toolkit's packages put what Docker calls, and what describes GPUs to it.
_TOOLKIT = (
    "/usr/bin/nvidia-container-runtime-hook",
    "/usr/bin/nvidia-container-toolkit",
    "/usr/bin/nvidia-container-runtime",
    "/usr/bin/nvidia-cdi-hook",
    "/etc/cdi/nvidia.yaml",
    "/var/run/cdi/nvidia.yaml",
)


@dataclass(frozen=True, kw_only=True)
class HostDisk:
    path: str  # on the box
    free: int  # bytes that this user may write
    total: int
    device: int  # of the kernel's; folders on one file system have the same


def disk(path: str, *, root: Path = Path("/")) -> HostDisk | None:
    """The file system that a path lies on, or would lie on; None when nobody may look.

    `root` is where this process sees the box's "/".
    """
    try:
        real = paths.resolve(path, root=root)
        for folder in (real, *real.parents):
            seen = root / folder.relative_to("/")
            if seen.exists():
                return _disk(path, seen)
    except (paths.PathError, OSError):
        return None
    return None


def _disk(path: str, seen: Path) -> HostDisk:
    found = os.statvfs(seen)
    return HostDisk(
        path=path,
        free=found.f_bavail * found.f_frsize,
        total=found.f_blocks * found.f_frsize,
        device=seen.stat().st_dev,
    )


def shared_memory(*, root: Path = Path("/")) -> HostDisk | None:
    """The box's own /dev/shm, which containers with --ipc host use."""
    return disk(_SHM, root=root)


def list_listening_ports(*, root: Path = Path("/")) -> frozenset[int] | None:
    """TCP ports that somebody listens on, of the network that this process is in; None where
    the kernel does not tell. Source: proc(5), /proc/net/tcp.
    """
    tables = [Kernel(root=root).text(f"proc/net/{name}") for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    listening = (row[1] for row in rows if len(row) > 3 and row[3] == _LISTENS)
    found = frozenset(int(address.rpartition(":")[2], 16) for address in listening)
    return found if any(tables) else None


def addresses(*, root: Path = Path("/")) -> frozenset[str] | None:
    """IPv4 addresses of the network that this process is in, without the loopback's; None where
    the kernel does not tell. Source: proc(5), /proc/net/fib_trie.
    """
    text = Kernel(root=root).text("proc/net/fib_trie")
    found = frozenset(each for each in _LOCAL.findall(text) if not each.startswith("127."))
    return found if text else None


def has_toolkit(*, root: Path = Path("/")) -> bool | None:
    """Whether NVIDIA's container toolkit lies where its packages put it; None when unseen."""
    seen = [paths.exists(str(PurePosixPath(each)), root=root) for each in _TOOLKIT]
    return True if True in seen else None if None in seen else False


# 1: page cache, 2: what drivers and the kernel would give back when asked, 3: both.
LEVEL = 3
_SWITCH = Path("/proc/sys/vm/drop_caches")
_SECONDS = 120  # a box with a terabyte of memory has a lot to write


def drop_caches(docker: DockerContainers, *, root: Path = Path("/"), level: int = LEVEL) -> None:
    """Write what is not on disk yet, then drop caches and driver pools.

    Root can do so itself. Anybody else who may speak to Docker can through a container that
    may write kernel settings, and is removed at once: no more power than Docker's socket has.
    The shell in it is the box's own, as an image's might do more than it is told. `root` is
    where this process sees the box's "/". Raises ContainerError. Rule: kernel documentation, vm.drop_caches.
    """
    try:
        os.sync()
        _SWITCH.write_text(f"{level}\n")
    except OSError:
        _through_container(docker, root, level)


def _through_container(docker: DockerContainers, root: Path, level: int = LEVEL) -> None:
    words = ("/bin/sh", "-c", f"sync; echo {level} > {_SWITCH}")
    question = ContainerCommand(
        image=docker.ensure_empty_image(),
        words=words,
        seconds=_SECONDS,
        sets_kernel=True,
        reads=throwaway.list_program_folders(root),
    )
    said = throwaway.ask(docker, question)
    if said.exit_code != 0:
        how = f"exit code {said.exit_code}" if said.end == "ended" else f"it was {said.end}"
        raise ContainerError(
            f"The page cache could not be dropped in a container ({how}): "
            f"{said.errors.strip()[-300:] or 'it said nothing'}",
            kind="other",
        )


# v1 says "no limit" with the largest number of whole pages.
_NO_LIMIT = 1 << 60
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class CgroupMemory:
    """Main memory of a cgroup at one moment. None: the kernel does not tell."""

    kills: int  # processes in it that the kernel killed for want of memory, whoever had none left
    held: int | None  # bytes, with its page cache
    limit: int | None  # bytes; None: none, or not told
    pids: frozenset[int]  # those that live, in our own pid namespace


def read_memory(kernel: Kernel, pid: int) -> CgroupMemory | None:
    """The memory of the cgroup that a process is in; None where it cannot be read or is gone.

    Sources: cgroup-v2.rst (`memory.events`: oom_kill counts kills by any OOM killer) and
    cgroup-v1/memory.rst (`memory.oom_control`, the same count since Linux 4.13).
    """
    for line in kernel.cgroup(pid).splitlines():
        number, _colon, rest = line.partition(":")
        controllers, _colon, path = rest.partition(":")
        below = path.lstrip("/")
        if "memory" in controllers.split(","):
            folder = f"sys/fs/cgroup/memory/{below}"
            names = ("memory.oom_control", "memory.usage_in_bytes", "memory.limit_in_bytes")
            return _read(kernel, folder, *names)
        if number == "0" and below:
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
                names = ("memory.events", "memory.current", "memory.max")
                found = _read(kernel, f"{mount}/{below}", *names)
                if found is not None:
                    return found
    return None


def _read(kernel: Kernel, folder: str, events: str, held: str, limit: str) -> CgroupMemory | None:
    kills = _KILLS.search(kernel.text(f"{folder}/{events}"))
    if kills is None:
        return None
    most = _number(kernel.text(f"{folder}/{limit}"))
    return CgroupMemory(
        kills=int(kills[1]),
        held=_number(kernel.text(f"{folder}/{held}")),
        limit=None if most is None or most >= _NO_LIMIT else most,
        pids=frozenset(map(int, kernel.text(f"{folder}/cgroup.procs").split())),
    )


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdecimal() else None


ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class Ahead:
    seconds: float  # negative: this clock is behind
    within: float  # seconds that this may be off


def ahead_of(there: Callable[[], float], own: Callable[[], float] = time.time) -> Ahead:
    """Of the clock that `there` asks for its unix time in seconds. Raises what that raises.

    Cristian's rule: the answer is from the middle of asking, give or take half of how long it
    took; of several the quickest is the best.
    """
    return min((_once(there, own) for _ in range(ROUNDS)), key=lambda each: each.within)


def _once(there: Callable[[], float], own: Callable[[], float]) -> Ahead:
    asked, said, heard = own(), there(), own()
    return Ahead(seconds=(asked + heard) / 2 - said, within=abs(heard - asked) / 2)


# More is no engine's; and each costs a look at every process.
_MOST = 2000
_SHM_FOLDER = "/dev/shm/"  # noqa: S108 - looked at, not written to
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
                used |= {_whole(name) for line in maps if (name := line.partition(_SHM_FOLDER)[2])}
            targets = (_target(each) for each in (process / "fd").iterdir())
            used |= {_whole(name) for each in targets if (name := each.partition(_SHM_FOLDER)[2])}
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
    return _SHM_FOLDER + name.rstrip("\n").removesuffix(" (deleted)")


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
