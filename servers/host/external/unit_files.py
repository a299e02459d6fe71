"""Commands of systemd services, read from their unit files.

systemd itself is not asked: its bus may be out of reach of who looks, and hang.
"""

import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_SYSTEM = (
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
)
_USER = ".config/systemd/user"
_LARGEST = 256 * 1024  # bytes of a file that is a unit, a drop-in or a script
_MOST = 2000  # files that are looked at
# What may stand before a program (systemd.service(5)).
_PREFIXES = "-@:+!|"
_SHELLS = ("sh", "bash", "dash", "zsh", "ash")
_SHEBANG = re.compile(r"#!\s*\S*?(?:/env\s+(?:-S\s+)?)?(\w+)(?=\s|$)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True, kw_only=True)
class UnitScript:
    """A shell script that a unit starts. Only it itself is read, not what it calls."""

    path: str
    text: str = field(repr=False)  # there may be secrets in it


@dataclass(frozen=True, kw_only=True)
class Service:
    unit: str  # "vllm.service", "user: llm.service" of a user's own systemd
    folder: str  # where it runs; "" where it says nothing
    commands: tuple[tuple[str, ...], ...]  # that start it, each in words
    scripts: tuple[UnitScript, ...] = ()  # which these commands run
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    drop_ins: tuple[str, ...] = ()  # files that say something else than the unit's own


def services(root: Path = Path("/")) -> tuple[Service, ...]:
    """Those that run now, or are enabled; files that may not be read are left out.

    Rule: systemd keeps a link units/invocation:<unit> below /run for each unit that is active, and
    one in a folder *.wants or *.requires for each that is enabled. Files <unit>.d/*.conf are read
    behind the unit's own, by their names, of two with one name the first folder's; an empty value
    takes back what was said before. Files with variables (EnvironmentFile=) are not read.
    """
    running = {
        "": [root / "run/systemd/units"],
        "user: ": [each / "systemd/units" for each in _entries(root / "run/user")],
    }
    found: dict[str, Service] = {}
    folders = list(_folders(root))
    for scope, folder in folders:
        wanted = {each.name for kind in ("wants", "requires") for each in _links(folder, kind)}
        for file in _files(folder):
            is_active = any(_is_link(each / f"invocation:{file.name}") for each in running[scope])
            name = f"{scope}{file.name}"
            if (file.name in wanted or is_active) and name not in found:
                beside = [each for whose, each in folders if whose == scope]
                service = _read(file, name, _drop_ins(file.name, beside), root)
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


def _drop_ins(unit: str, folders: list[Path]) -> list[Path]:
    """A user's own are in one folder: those of other homes are other people's."""
    names = [f"{unit}.d"]
    if "@" in unit:
        names.append(f"{unit.partition('@')[0]}@.service.d")
    found: dict[str, Path] = {}
    for folder in folders:
        for name in names:
            for each in _entries(folder / name):
                if each.suffix == ".conf":
                    found.setdefault(each.name, each)
    return [found[name] for name in sorted(found)][:_MOST]


def _text(file: Path) -> str | None:
    """None for what is no file, may not be read or is too large."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):  # ValueError: a NUL in a path that somebody has written
        return None
    try:
        said = os.fstat(handle)
        if not stat.S_ISREG(said.st_mode) or said.st_size > _LARGEST:
            return None
        with os.fdopen(handle, "rb", closefd=False) as opened:
            return opened.read(_LARGEST).decode(errors="replace")
    except OSError:
        return None
    finally:
        os.close(handle)


def _read(file: Path, unit: str, drop_ins: list[Path], root: Path) -> Service | None:
    own = _text(file)
    if own is None:
        return None
    folder = ""
    starts: list[tuple[str, str]] = []
    env: dict[str, str] = {}
    more = [(each, text) for each in drop_ins if (text := _text(each)) is not None]
    for text in (own, *(text for _file, text in more)):
        for line in text.replace("\\\n", " ").splitlines():
            name, equals, value = line.partition("=")
            name, value = name.strip(), _expand_specifiers(value.strip(), file.name)
            if not equals or line.startswith(("#", ";")):
                continue
            if name == "WorkingDirectory":
                folder = value.lstrip("-")
            elif name == "Environment":
                env = env | _parse_assignments(value) if value else {}
            elif name in ("ExecStart", "ExecStartPost"):
                kept = [each for each in starts if value or each[0] != name]
                starts = [*kept, (name, value)] if value else kept
    commands = [words for _name, value in starts if (words := _words(value.lstrip(_PREFIXES)))]
    commands = [tuple(_expand_variables(env, word) for word in words) for words in commands]
    if not commands:
        return None
    scripts = (_script(words, folder, root) for words in commands)
    return Service(
        unit=unit,
        folder=folder,
        commands=tuple(commands),
        scripts=tuple(each for each in scripts if each is not None),
        env=env,
        drop_ins=tuple(f"/{each.relative_to(root)}" for each, _text in more),
    )


def _parse_assignments(value: str) -> dict[str, str]:
    try:
        pairs = [word.partition("=") for word in shlex.split(value)]
    except ValueError:
        return {}
    return {name: said for name, equals, said in pairs if equals}


def _expand_variables(env: Mapping[str, str], word: str) -> str:
    return _VARIABLE.sub(lambda found: env.get(found[1] or found[2], found[0]), word)


def _script(words: tuple[str, ...], folder: str, root: Path) -> UnitScript | None:
    """`/opt/llm/start.sh`, `bash start.sh`; None for what is no shell's."""
    words = words[1:] if words[0].rpartition("/")[2] == "env" else words
    is_shell = bool(words) and words[0].rpartition("/")[2] in _SHELLS
    if is_shell:
        words = tuple(word for word in words[1:] if not word.startswith(("-", "+")))
    if not words or "/" not in (path := words[0] if "/" in words[0] else f"{folder}/{words[0]}"):
        return None
    path = path if path.startswith("/") else f"{folder}/{path}"
    text = _text(root / path.lstrip("/"))
    if text is None or "\0" in text[:1024]:
        return None
    said = _SHEBANG.match(text)
    is_script = said is not None and said[1] in _SHELLS
    return UnitScript(path=path, text=text) if is_script or (is_shell and said is None) else None


def _expand_specifiers(value: str, unit: str) -> str:
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
