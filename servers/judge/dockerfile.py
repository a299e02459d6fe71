"""Whether a profile's Dockerfile and the files beside it may be built. Pure."""

import re
from collections.abc import Mapping

LONGEST = 64 << 10  # characters of a Dockerfile
LONGEST_FILE = 256 << 10
LONGEST_FILES = 1 << 20  # of all together: a build here has no folder of its own
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_REMOTE = re.compile(r"^(?:https?|git|ssh|ftp)://|^git@|\.git(?:#.*)?$", re.IGNORECASE)


def instructions(text: str) -> list[tuple[int, str, str]]:
    """Line, instruction and what follows it, with continued lines joined; without comments."""
    found: list[tuple[int, str, str]] = []
    gathered, began = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        if not gathered:
            began = number
        if stripped.endswith("\\"):
            gathered += stripped[:-1] + " "
            continue
        word, _space, rest = (gathered + stripped).partition(" ")
        found.append((began, word.upper(), rest.strip()))
        gathered = ""
    if gathered.strip():
        word, _space, rest = gathered.partition(" ")
        found.append((began, word.upper(), rest.strip()))
    return found


def base(text: str) -> str:
    """The image that the last stage begins with; "" for none, and where an ARG names it."""
    named = [rest for _line, word, rest in instructions(text) if word == "FROM"]
    words = [each for each in named[-1].split() if not each.startswith("--")] if named else []
    return words[0] if words and "$" not in words[0] else ""


def faults(text: str, files: Mapping[str, str]) -> list[str]:
    """What keeps it from being built, a sentence each; empty when nothing does."""
    return [*_of_text(text), *_of_files(text, files)]


def _of_text(text: str) -> list[str]:
    if len(text) > LONGEST:
        return [f"The Dockerfile is longer than {LONGEST >> 10} KiB."]
    found = instructions(text)
    said = []
    first = next((word for _line, word, _rest in found if word != "ARG"), "")
    if first != "FROM":
        said.append("The Dockerfile must begin with FROM and the image that it patches.")
    for line, word, rest in found:
        sources = [each for each in rest.split() if not each.startswith("--")][:-1]
        if word == "ADD" and any(_REMOTE.search(each.strip('",[')) for each in sources):
            # Docker's daemon would fetch it, from where containers may not reach.
            said.append(
                f"Line {line}: ADD may not fetch from an address here. Let a RUN fetch it, with "
                "curl or pip."
            )
    return said


def _of_files(text: str, files: Mapping[str, str]) -> list[str]:
    said = []
    for name, content in files.items():
        if not _NAME.match(name) or name.casefold() in ("dockerfile", ".dockerignore"):
            said.append(f"“{name[:60]}” is no name for a file beside the Dockerfile.")
        if len(content.encode()) > LONGEST_FILE:
            said.append(f"{name} is larger than {LONGEST_FILE >> 10} KiB.")
    if sum(len(each.encode()) for each in files.values()) > LONGEST_FILES:
        said.append(f"The files together are larger than {LONGEST_FILES >> 20} MiB.")
    for line, word, rest in instructions(text):
        if word not in ("COPY", "ADD") or "--from" in rest or rest.startswith("["):
            continue
        for source in [each for each in rest.split() if not each.startswith("--")][:-1]:
            plain = source.removeprefix("./")
            is_named = not set("*?[$") & set(plain) and not _REMOTE.search(plain)
            if is_named and plain not in ("", ".", *files):
                said.append(f"Line {line}: {plain} is not among the files beside the Dockerfile.")
    return said
