"""Output files of external processes, and how to read them.

Some engines also write a file of their own (llama-server's --log-file): that counts as what it
prints where its two streams go elsewhere.
"""

import os
import stat
from collections import OrderedDict
from dataclasses import dataclass, replace
from io import RawIOBase
from pathlib import Path
from typing import Literal, cast

from servers.host.files import paths
from servers.host.kernel.proc import Kernel
from servers.host.kernel.units import unit

type Kind = Literal["file", "journal", "terminal", "pipe", "nothing", "hidden"]

# Its standard output and standard error, and the stream that stands for each in a log.
STREAMS = {"o": 1, "e": 2}
_O_PATH = 0o10000000
_SHOWN = 200  # characters of a path
_MOST = 1024  # descriptors that are looked at

MOST_REMEMBERED = 1000  # processes of which it is known what they printed to


@dataclass(frozen=True, kw_only=True)
class ProcessStream:
    """One stream of a process. `path` is a file's, as the kernel tells it, or a terminal's."""

    stream: str  # "o" or "e"
    kind: Kind
    path: str = ""
    is_appended: bool = False  # what stands in the file may be older than the process
    inode: tuple[int, int] = (0, 0)  # device and number
    number: int = 0  # the process's descriptor
    is_own: bool = False  # the engine itself has opened it, as it was told


class PrintedError(Exception):
    """A file cannot be read; the text says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class _Opened:
    """A file that opened() has opened, as it was then."""

    path: Path
    owner: int
    is_public: bool


# By process (its number and its start) and by the file's device and number. In memory only: what a
# row says of an earlier watcher's files, whoever can write rows may have written.
_opened: OrderedDict[tuple[int, int], dict[tuple[int, int], _Opened]] = OrderedDict()


def outlets(pid: int, kernel: Kernel | None = None, *, own: str = "") -> tuple[ProcessStream, ...]:
    """Both streams; one where both go to the same file or place. () when the process is gone.

    `own` is the file that its words have it write its log to. It is the only one told where the
    process holds it open for writing and neither stream goes to a file: it has all that they have.
    """
    kernel = kernel or Kernel()
    found: list[ProcessStream] = []
    for stream, number in STREAMS.items():
        outlet = _outlet(pid, stream, number, kernel)
        if outlet is not None and not any(_is_same(outlet, other) for other in found):
            found.append(outlet)
    if own and not any(each.kind == "file" for each in found):
        for number in _descriptors(pid, kernel):
            outlet = _outlet(pid, "o", number, kernel)
            if outlet and outlet.kind == "file" and _is_called(outlet, own, kernel):
                return (replace(outlet, is_own=True),)
    return tuple(found)


def _descriptors(pid: int, kernel: Kernel) -> list[int]:
    """Those above its streams that it may write to."""
    try:
        names = [each.name for each in (kernel.root / f"proc/{pid}/fd").iterdir()]
    except OSError:
        return []
    numbers = sorted(int(name) for name in names if name.isdigit() and int(name) > 2)  # noqa: PLR2004
    return [number for number in numbers[:_MOST] if _is_written(_flags(pid, number, kernel))]


def _is_called(outlet: ProcessStream, path: str, kernel: Kernel) -> bool:
    """Whether that is its name, or was before a rotation."""
    if outlet.path == os.path.normpath(path)[:_SHOWN]:
        return True
    try:
        said = (kernel.root / path.lstrip("/")).stat()
    except OSError:
        return False
    return (said.st_dev, said.st_ino) == outlet.inode


def _is_same(one: ProcessStream, other: ProcessStream) -> bool:
    return (one.kind, one.path, one.inode) == (other.kind, other.path, other.inode)


def _outlet(pid: int, stream: str, number: int, kernel: Kernel) -> ProcessStream | None:
    link = kernel.root / f"proc/{pid}/fd/{number}"
    try:
        target = paths.format_path(link.readlink())[:_SHOWN]
        said = link.stat()
    except PermissionError:
        return ProcessStream(stream=stream, kind="hidden")
    except OSError:
        # Closed, or the process is ending.
        return ProcessStream(stream=stream, kind="nothing") if kernel.life(pid) else None
    path = target.removesuffix(" (deleted)")
    inode = (said.st_dev, said.st_ino)
    if stat.S_ISREG(said.st_mode):
        return ProcessStream(
            stream=stream,
            kind="file",
            path=path,
            inode=inode,
            number=number,
            is_appended=bool(_flags(pid, number, kernel) & os.O_APPEND),
        )
    if stat.S_ISCHR(said.st_mode):
        is_terminal = path.startswith(("/dev/pts/", "/dev/tty"))
        return ProcessStream(
            stream=stream, kind="terminal" if is_terminal else "nothing", path=path
        )
    # systemd hands a unit a socket to its journal.
    is_unit = unit(kernel, pid) not in ("", "session")
    is_journal = stat.S_ISSOCK(said.st_mode) and is_unit
    return ProcessStream(stream=stream, kind="journal" if is_journal else "pipe")


def _flags(pid: int, number: int, kernel: Kernel) -> int:
    for line in (kernel._text(f"proc/{pid}/fdinfo/{number}") or "").splitlines():
        name, _colon, value = line.partition(":")
        if name == "flags":
            return int(value, 8)
    return 0


def _is_written(flags: int) -> bool:
    return flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR) and not flags & _O_PATH


def open_stream(
    pid: int, number: int, kernel: Kernel | None = None, *, start: int | None = None
) -> "RawIOBase":
    """The file that a descriptor of a process goes to, whatever its name is by now.

    `start` is the process's, in ticks of the clock since the boot; None: whichever has the number.
    Raises PrintedError where that is another process by now, where it is none, or not a file of who
    runs the process: inferdash may be root, and must not read to people what they may not read
    themselves. Rule: the process holds it open for writing (a descriptor of O_PATH proves nothing),
    and it is its user's, everybody may read it, or systemd has opened it for a unit.
    """
    kernel = kernel or Kernel()
    link = kernel.root / f"proc/{pid}/fd/{number}"
    before, file = kernel.life(pid), _open(link)
    said = os.fstat(file.fileno())
    is_its = _is_written(_flags(pid, number, kernel)) and _may_be_shown(pid, said, kernel)
    path, after = _find_path(link), kernel.life(pid)
    if before is None or after is None or {start or after.start, before.start} != {after.start}:
        file.close()
        raise PrintedError("The process ended while it was looked at.")
    if not is_its:
        file.close()
        raise PrintedError(
            "Its output goes to a file that belongs to somebody else than the process, and that not "
            "everybody may read. inferdash does not show such a file."
        )
    if path is not None:
        _remember((pid, after.start), path, said)
    return file


def _find_path(link: Path) -> Path | None:
    try:
        return Path(str(link.readlink()).removesuffix(" (deleted)"))
    except OSError:
        return None  # closed meanwhile


def _remember(life: tuple[int, int], path: Path, said: os.stat_result) -> None:
    opened = _Opened(path=path, owner=said.st_uid, is_public=_is_public(said))
    _opened.setdefault(life, {})[said.st_dev, said.st_ino] = opened
    _opened.move_to_end(life)
    while len(_opened) > MOST_REMEMBERED:
        _opened.popitem(last=False)


def reopen_stream(pid: int, start: int, inode: tuple[int, int]) -> "RawIOBase | None":
    """A file of a process that has ended: the one of this device and number that opened() has
    opened while it ran. None when another one has its name by now. Raises PrintedError.

    `start` is the process's, in ticks of the clock since the boot. Rule: where to look is what this
    process of inferdash has itself found. A row alone, which says what an earlier one has opened, is
    no reason to open anything; and a file that has taken the number of one that was removed is not
    read where it has another owner, or is private where that was not.
    """
    known = _opened.get((pid, start), {}).get(inode)
    if known is None:
        raise PrintedError(
            "Its process ended while inferdash did not watch it: nobody can tell any more whether "
            "the file that its output went to was its own."
        )
    file = _open(known.path)
    said = os.fstat(file.fileno())
    is_same = (said.st_dev, said.st_ino, said.st_uid) == (*inode, known.owner)
    if is_same and (_is_public(said) or not known.is_public):
        return file
    file.close()
    return None


def _may_be_shown(pid: int, said: os.stat_result, kernel: Kernel) -> bool:
    owner = kernel.uid(pid)
    if owner is None:
        return False
    its = unit(kernel, pid)
    is_service = its not in ("", "session") and not its.startswith("user: ")
    return owner in (0, said.st_uid) or _is_public(said) or is_service


def _is_public(said: os.stat_result) -> bool:
    return bool(said.st_mode & stat.S_IROTH)


def _open(path: Path) -> "RawIOBase":
    try:
        # Not to wait for a pipe's other end, should it have become one meanwhile.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        raise PrintedError(f"Its output cannot be read: {error.strerror} ({path}).") from error
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return cast("RawIOBase", os.fdopen(handle, "rb", buffering=0))
    os.close(handle)
    raise PrintedError("Its output does not go to a file.")
