"""What somebody who is root in a container may put where a file of a model is expected."""

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SECRET = "TOP-SECRET-of-another-owner"
COMMIT = "5ec4e7" + "0" * 34  # also a secret where a branch leads to it
TIB = 1 << 40
NOBODY = 65534
_LONG = 60  # seconds: nothing here reads more than a few MiB

type Make = Callable[[Path, Path], None]


def victim(folder: Path) -> Path:
    """A folder of somebody else's, with files that everything would like to read."""
    folder.mkdir(parents=True, mode=0o700)
    (folder / "secret").write_text(f'{{"architectures": ["{SECRET}"], "weight_map": {{}}}}')
    (folder / "commit").write_text(COMMIT)
    for each in folder.iterdir():
        each.chmod(0o600)
    return folder


def state_of(folder: Path) -> dict[str, Any]:
    """Whatever of it a download or a deletion could change."""
    return {
        str(each.relative_to(folder)): _state(each) for each in sorted([folder, *folder.rglob("*")])
    }


def _state(path: Path) -> tuple[Any, ...]:
    seen = path.lstat()
    content: Any = ""
    if path.is_symlink():
        content = path.readlink()
    elif path.is_file():
        content = path.read_bytes()
    return (seen.st_mode, seen.st_ino, seen.st_mtime_ns, seen.st_size, seen.st_uid, content)


def _link(to: str) -> Make:
    def make(path: Path, victims: Path) -> None:
        path.symlink_to(os.path.relpath(victims / to, path.parent))

    return make


def _absolute(path: Path, victims: Path) -> None:
    path.symlink_to(victims / "secret")


def _absolute_folder(path: Path, victims: Path) -> None:
    path.symlink_to(victims)


def _chain(path: Path, victims: Path) -> None:
    first, second = (path.with_name(f"{path.name}-{number}") for number in (1, 2))
    first.symlink_to(victims / "secret")
    second.symlink_to(first.name)
    path.symlink_to(second.name)


def _out_and_in(path: Path, victims: Path) -> None:
    """By "..", through a folder that is there."""
    inner = path.with_name("inner")
    inner.mkdir(exist_ok=True)
    path.symlink_to(Path("inner/..") / os.path.relpath(victims / "secret", path.parent))


def _loop(path: Path, _victims: Path) -> None:
    path.symlink_to(path.name)


def _fifo(path: Path, _victims: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path, _victims: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    here = os.open(path.parent, os.O_PATH)
    try:  # a path of a socket has 108 bytes at most
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)
        made.close()


def _zeros(path: Path, _victims: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))


def _disk(path: Path, _victims: Path) -> None:
    os.mknod(path, 0o666 | stat.S_IFBLK, os.makedev(7, 0))


def _folder(path: Path, _victims: Path) -> None:
    path.mkdir()


def _sparse(path: Path, _victims: Path) -> None:
    with path.open("wb") as file:
        file.truncate(TIB)


def _second_name(path: Path, victims: Path) -> None:
    """In a folder of a user's, a file of root's."""
    os.chown(path.parent, NOBODY, NOBODY)
    path.hardlink_to(victims / "secret")


FILES: dict[str, Make] = {
    "a link to a file": _link("secret"),
    "a link to another file": _link("commit"),
    "a link to a folder": _link("."),
    "an absolute link": _absolute,
    "an absolute link to a folder": _absolute_folder,
    "a chain of links": _chain,
    "a link with ..": _out_and_in,
    "a link to itself": _loop,
    "a FIFO": _fifo,
    "a socket": _socket,
    "a character device": _zeros,
    "a block device": _disk,
    "a folder": _folder,
    "a sparse file of 1 TiB": _sparse,
    "another owner's file under a second name": _second_name,
}
LINKS = {name: make for name, make in FILES.items() if "link" in name}


def put(name: str, path: Path, victims: Path) -> None:
    """In place of whatever is there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    FILES[name](path, victims)


def promptly[T](do: Callable[[], T]) -> T:
    """What it returns. Fails where it waits for somebody who never comes."""
    came: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            came.append(do())
        except BaseException as error:  # noqa: BLE001 - of the other thread, raised in this one
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_LONG)
    assert not thread.is_alive(), "it waits for ever"
    if failed:
        raise failed[0]
    return came[0]


@contextmanager
def going_on(do: Callable[[], None]) -> Iterator[None]:
    """Again and again beside what is in it."""
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            do()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
