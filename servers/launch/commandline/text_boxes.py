"""Text boxes of a profile, read as values. Every error names the line."""

import re

from servers.launch import numbers
from servers.launch.engines import placement
from servers.launch.engines.launch import MOST_PARAMETERS, check_parameter
from servers.launch.recipes import notation

_TOKEN = re.compile(r"(hf_|sk-|nvapi-|ghp_)[A-Za-z0-9_-]{8,}\Z")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
UNLIMITED = -1  # of a --ulimit
_SECRET = re.compile(r"(^|_)(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIALS?)($|_)", re.IGNORECASE)


class WordsError(ValueError):
    """A text that cannot be read; says what, where and what to write instead."""


def lines(text: str) -> tuple[str, ...]:
    """Lines that are neither empty nor comments, stripped."""
    stripped = (line.strip() for line in text.splitlines())
    return tuple(line for line in stripped if line and not line.startswith("#"))


def is_variable(name: str) -> bool:
    """Whether this can be a variable's name. Rule: POSIX."""
    return bool(VARIABLE.match(name))


def volumes(text: str) -> tuple[str, ...]:
    """source:target[:ro] lines. Raises WordsError."""
    found = lines(text)
    for number, volume in enumerate(found, start=1):
        try:
            # Any home will do: whether the box has one is told before the start.
            placement.parse(volume, home="/home")
        except placement.VolumeError as error:
            raise WordsError(f"Line {number}: {error}") from None
    return found


def network(text: str) -> str:
    """bridge, host, or a Docker network's name. Raises WordsError."""
    name = text.strip()
    if name.startswith("container:"):
        raise WordsError("Another container's network cannot be shared here.")
    if name == "none" or not _NETWORK.match(name):
        raise WordsError(f"“{name}” is not bridge, host, or a Docker network's name.")
    return name


def figures(text: str) -> dict[str, str]:
    """ "what: figure" lines, such as "tokens per second: 30-35". Raises WordsError."""
    found: dict[str, str] = {}
    for line in lines(text):
        name, colon, value = line.partition(":")
        if not colon or not name.strip() or not value.strip():
            raise WordsError(f"“{line[:60]}” is not a figure, such as tokens per second: 30-35.")
        found[name.strip()] = value.strip()
    return found


def is_secret(name: str) -> bool:
    """Whether a variable's name says that its value is nobody else's business."""
    return bool(_SECRET.search(name))


def digests(text: str) -> dict[str, str]:
    """Paths in the container with their SHA-256, from lines as sha256sum prints them.

    Raises WordsError.
    """
    found: dict[str, str] = {}
    for line in lines(text):
        digest, _space, path = line.partition(" ")
        path = path.strip().removeprefix("*")
        try:
            found[path] = notation.digest(path, digest)
        except ValueError as error:
            raise WordsError(str(error)) from None
    return found


def parameters(text: str) -> dict[str, str]:
    """name=value lines, such as context=32768. Raises WordsError."""
    found: dict[str, str] = {}
    for line in lines(text):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise WordsError(f"“{line[:60]}” is not name=value, such as context=32768.")
        try:
            check_parameter(name, value)
        except ValueError as error:
            raise WordsError(str(error)) from None
        found[name] = value
    if len(found) > MOST_PARAMETERS:
        raise WordsError(f"A profile has at most {MOST_PARAMETERS} parameters.")
    return found


def is_token(value: str) -> bool:
    """Whether a value has the form of a known service's token."""
    return bool(_TOKEN.match(value))


def gpus(text: str) -> str:
    """ "all", "none", indices "0,1" in the order given, or "2x RTX PRO 6000". Raises WordsError.

    Understands what `docker run --gpus` takes: all, "device=0,1", and a quoted form of it.
    """
    if which := placement.parse_gpu_requirement(" ".join(text.split())):
        return str(which)
    cleaned = text.strip().strip("'\"").removeprefix("device=").replace(" ", "").lower()
    if cleaned in ("", "all"):
        return "all"
    if cleaned in ("none", "no"):
        return "none"
    indices = cleaned.split(",")
    if any(numbers.whole(index) is None for index in indices):
        raise WordsError(
            f"“{text[:60]}” is not all, none, indices such as 0,1, or 2x RTX PRO 6000."
        )
    if len(set(indices)) != len(indices):
        raise WordsError(f"“{text}” names a GPU twice.")
    return ",".join(str(int(index)) for index in indices)


def ulimits(text: str) -> dict[str, int]:
    """name=value lines, as in `docker run --ulimit`; -1 is unlimited. Raises WordsError."""
    found: dict[str, int] = {}
    for line in lines(text):
        name, equals, value = line.removeprefix("--ulimit").strip(" =").partition("=")
        limit = ulimit(value)
        if not equals or limit is None:
            raise WordsError(f"“{line[:60]}” is not name=number, such as memlock=-1.")
        found[name] = limit
    return found


def ulimit(text: str) -> int | None:
    """A limit of `--ulimit`; -1 is unlimited, None what is none."""
    return UNLIMITED if text == str(UNLIMITED) else numbers.whole(text)


# As head and tail print several files.
_HEAD = re.compile(r"==>\s*(\S.*?)\s*<==\s*")


def build_files(text: str) -> dict[str, str]:
    """Texts by name, each below a line “==> name <==”. Raises WordsError.

    Each ends with a newline, as files of text do.
    """
    found: dict[str, str] = {}
    name, lines = "", list[str]()
    for line in text.replace("\r\n", "\n").split("\n"):
        head = _HEAD.fullmatch(line)
        if head is None:
            if not name and line.strip():
                raise WordsError("Begin each file with a line such as ==> fix.patch <==.")
            lines.append(line)
            continue
        _keep(found, name, lines)
        name, lines = head[1], []
        if name in found:
            raise WordsError(f"{name} stands there twice.")
    _keep(found, name, lines)
    return found


def _keep(found: dict[str, str], name: str, lines: list[str]) -> None:
    if name:
        # Blank lines before the next head are for the eye.
        found[name] = "\n".join(lines).rstrip("\n") + "\n"


def build_files_text(found: dict[str, str]) -> str:
    """What build_files() reads again."""
    return "\n".join(f"==> {name} <==\n{content}" for name, content in found.items())
