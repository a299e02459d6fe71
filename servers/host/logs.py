"""A container's log from Docker's socket, with both streams apart.

Docker multiplexes a log as frames: one byte for the stream, three of padding, four for the
length, then the line. A generic HTTP client hands each frame over by itself, which costs
more than the line: here one recv() takes in hundreds of them.

Some engines also write a file of their own (llama-server's --log-file): that counts as what it
prints where its two streams go elsewhere.
"""

import os
import stat
import struct
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from io import RawIOBase
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast
from urllib.parse import quote, urlencode

from servers.host.docker.client import DockerResponse, DockerSocketError
from servers.host.files import paths
from servers.host.kernel.proc import Kernel
from servers.host.kernel.processes import unit

type Line = tuple[str, Literal["o", "e"], bytes]  # RFC 3339 timestamp, stream, text

# What an engine prints without a newline is handed on in parts of this size: it may go on for ever.
LONGEST = 1024 * 1024

_HEADER = struct.Struct(">BxxxL")


class LogStreamError(Exception):
    """Docker refused or broke off; the text is Docker's own."""


class LogStream:
    """An iterator over lines. close() ends it, also from another thread.

    A container with a terminal (`docker run -t`) has one stream, which Docker hands out as it is.
    What comes after the last newline is handed out with_rest only, else kept as `rest`: it is what
    a killed process wrote last where all was read, and half a line where Docker or we broke off.
    Raises LogStreamError when Docker refuses, and while it is read when Docker breaks off.
    """

    def __init__(
        self,
        host: str,
        container: str,
        *,
        since: str,
        follow: bool,
        has_terminal: bool = False,
        with_rest: bool | None = None,
    ) -> None:
        self._has_terminal = has_terminal
        self._with_rest = not follow if with_rest is None else with_rest
        self.rest: list[Line] = []
        query = {"stdout": "1", "stderr": "1", "timestamps": "1", "follow": str(int(follow))}
        if since:
            query["since"] = since
        try:
            self._answer = DockerResponse(
                host, f"/containers/{quote(container)}/logs?{urlencode(query)}"
            )
        except DockerSocketError as error:
            raise LogStreamError(str(error)) from error

    def close(self) -> None:
        self._answer.close()

    def __iter__(self) -> Iterator[Line]:
        try:
            yield from self._raw_lines() if self._has_terminal else self._lines()
            if self._with_rest:
                yield from self.rest
        except DockerSocketError as error:
            if not self._answer.is_closed:
                raise LogStreamError(str(error)) from error
        finally:
            self._answer.close()

    def _lines(self) -> Iterator[Line]:
        buffer = b""
        # Docker cuts lines at 16 KiB; only the last piece ends with a newline.
        pieces: dict[int, tuple[str, bytearray]] = {}
        unpack = _HEADER.unpack_from
        while received := self._answer.receive():
            buffer = buffer + received if buffer else received
            at = 0
            last = len(buffer) - _HEADER.size
            while at <= last:
                kind, length = unpack(buffer, at)
                if at + length > last:
                    break
                at += _HEADER.size
                stamp, _space, text = buffer[at : at + length].partition(b" ")
                at += length
                if text[-1:] == b"\n" and kind not in pieces:
                    yield stamp.decode("ascii"), "e" if kind == 2 else "o", text[:-1]
                    continue
                first, line = pieces.setdefault(kind, (stamp.decode("ascii"), bytearray()))
                line += text
                has_ended = text[-1:] == b"\n"
                if has_ended or len(line) >= LONGEST:
                    if line != b"\n":  # the rest of one that was handed on
                        yield first, "e" if kind == 2 else "o", bytes(line).removesuffix(b"\n")
                    if has_ended:
                        del pieces[kind]
                    else:
                        pieces[kind] = (_microsecond_later(first), bytearray())
            buffer = buffer[at:]
        self.rest = [
            (first, "e" if kind == 2 else "o", bytes(line))
            for kind, (first, line) in pieces.items()
            if line
        ]

    def _raw_lines(self) -> Iterator[Line]:
        """Each after its timestamp; a terminal ends its lines with \\r\\n."""
        buffer = b""
        while received := self._answer.receive():
            *lines, buffer = (buffer + received).split(b"\n")
            yield from map(_raw_line, filter(bytes.strip, lines))
        self.rest = [_raw_line(buffer)] if buffer.strip() else []


def _raw_line(line: bytes) -> Line:
    stamp, _space, text = line.partition(b" ")
    return stamp.decode("ascii", "replace"), "o", text.removesuffix(b"\r")


def _microsecond_later(stamp: str) -> str:
    """Docker stamps all pieces of a line alike: parts must be told apart, each time in one way."""
    carry, rest = divmod(int(stamp[20:29]) + 1000, 10**9)
    whole = datetime.fromisoformat(stamp[:19]) + timedelta(seconds=carry)
    return f"{whole.isoformat()}.{rest:09d}{stamp[29:]}"


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


class LogProgress(NamedTuple):
    """How far a file was read, as a run's row keeps it."""

    path: str = ""
    inode: tuple[int, int] = (0, 0)  # device and number
    offset: int = 0  # bytes

    def to_json(self) -> dict[str, Any]:
        return {"path": self.path, "inode": list(self.inode), "offset": self.offset}

    @classmethod
    def from_row(cls, said: object) -> Self:
        """Of nothing where the row is not as inferdash writes it."""
        match said:
            case {"path": str(path), "inode": [int(device), int(number)], "offset": int(offset)}:
                return cls(path, (device, number), max(0, offset))
        return cls()


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


def list_outlets(
    pid: int, kernel: Kernel | None = None, *, own: str = ""
) -> tuple[ProcessStream, ...]:
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
    for line in kernel.text(f"proc/{pid}/fdinfo/{number}").splitlines():
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
