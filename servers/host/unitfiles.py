"""What the services of systemd that are on, or would come with the box, start: from their files.

systemd itself is not asked: its bus may be out of reach of who looks, and hang.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = (
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
)
_USER = ".config/systemd/user"
_LARGEST = 256 * 1024  # bytes of a file that is a unit
_MOST = 2000  # files that are looked at
# What may stand before a program (systemd.service(5)).
_PREFIXES = "-@:+!|"


@dataclass(frozen=True, kw_only=True)
class Service:
    unit: str  # "vllm.service", "user: llm.service" of a user's own systemd
    folder: str  # where it runs; "" where it says nothing
    commands: tuple[tuple[str, ...], ...]  # that start it, each in words


def services(root: Path = Path("/")) -> tuple[Service, ...]:
    """Those that run now, or are enabled; files that may not be read are left out.

    Rule: systemd keeps a link units/invocation:<unit> below /run for each unit that is active, and
    one in a folder *.wants or *.requires for each that is enabled. Drop-ins are not read.
    """
    running = {
        "": [root / "run/systemd/units"],
        "user: ": [each / "systemd/units" for each in _entries(root / "run/user")],
    }
    found: dict[str, Service] = {}
    for scope, folder in _folders(root):
        wanted = {each.name for kind in ("wants", "requires") for each in _links(folder, kind)}
        for file in _files(folder):
            is_active = any(_is_link(each / f"invocation:{file.name}") for each in running[scope])
            name = f"{scope}{file.name}"
            if (file.name in wanted or is_active) and name not in found:
                service = _read(file, name)
                if service is not None:
                    found[name] = service
    return tuple(found.values())


def _folders(root: Path) -> Iterator[tuple[str, Path]]:
    for each in _SYSTEM:
        yield "", root / each
    for home in (root / "root", *_entries(root / "home")):
        yield "user: ", home / _USER


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _files(folder: Path) -> list[Path]:
    return [each for each in _entries(folder) if each.suffix == ".service"][:_MOST]


def _links(folder: Path, kind: str) -> Iterator[Path]:
    for each in _entries(folder):
        if each.suffix == f".{kind}":
            yield from _entries(each)


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:
        return False


def _read(file: Path, unit: str) -> Service | None:
    try:
        if file.stat().st_size > _LARGEST:
            return None
        text = file.read_text(errors="replace")
    except OSError:
        return None
    folder, commands = "", []
    for line in text.replace("\\\n", " ").splitlines():
        name, equals, value = line.partition("=")
        name, value = name.strip(), _filled(value.strip(), file.name)
        if not equals or line.startswith(("#", ";")):
            continue
        if name == "WorkingDirectory":
            folder = value.lstrip("-")
        elif name in ("ExecStart", "ExecStartPost"):
            commands += [words] if (words := _words(value.lstrip(_PREFIXES))) else []
    return Service(unit=unit, folder=folder, commands=tuple(commands)) if commands else None


def _filled(value: str, unit: str) -> str:
    """Specifiers that stand for the unit's own name (systemd.unit(5))."""
    stem = unit.removesuffix(".service")
    for specifier, means in (("%n", unit), ("%N", stem), ("%p", stem.partition("@")[0])):
        value = value.replace(specifier, means)
    return value


def _words(command: str) -> tuple[str, ...]:
    """Those of a shell's -c, too: `bash -c "cd /srv/llm && docker compose up"`."""
    try:
        words = shlex.split(command)
        if (
            len(words) > 2
            and words[0].rpartition("/")[2] in ("sh", "bash", "dash")
            and "c" in words[1]
        ):
            words = shlex.split(words[2].replace("&&", " && ").replace(";", " ; "))
    except ValueError:
        return ()
    return tuple(words)
