"""With which words and variables a process of the box was started: of what it was made a profile of."""

from dataclasses import dataclass, field
from pathlib import Path

from servers.host.files import paths
from servers.host.kernel.proc import Kernel, Processes


class StartedError(Exception):
    """A process cannot be read; the text says why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class StartedProcess:
    argv: tuple[str, ...] = field(repr=False)  # with secrets in it
    # None: it belongs to somebody else, and only root may read it.
    env: dict[str, str] | None = field(repr=False)
    folder: str  # where it runs now; "": that cannot be read
    user: str


def find_started_process(pid: int, *, start: int) -> StartedProcess:
    """What a process that began `start` clock ticks after the boot was started with.

    Raises StartedError where it has ended, or its number belongs to another one by now.
    Rule: proc(5).
    """
    now = Processes(Kernel(root=Path("/"))).read({pid})
    if not now or now[0].start != start:
        raise StartedError(f"Process {pid} has ended. What runs now is listed anew in a moment.")
    home = Path(f"/proc/{pid}")
    try:
        words = (home / "cmdline").read_bytes().decode(errors="replace")
    except OSError as error:
        raise StartedError(
            f"The words of process {pid} cannot be read: {error.strerror}."
        ) from error
    if not words:
        raise StartedError(
            f"Process {pid} shows no words: it begins or ends just now. Look again in a moment."
        )
    return StartedProcess(
        argv=tuple(words.rstrip("\0").split("\0")),
        env=_environment(home),
        folder=_folder(home),
        user=now[0].user or "",
    )


def _environment(home: Path) -> dict[str, str] | None:
    try:
        text = (home / "environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    pairs = (each.partition("=") for each in text.split("\0") if "=" in each)
    return {name: value for name, _equals, value in pairs}


def _folder(home: Path) -> str:
    try:
        return paths.format_path((home / "cwd").readlink())
    except OSError:
        return ""
