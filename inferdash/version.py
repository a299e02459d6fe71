"""The version of this inferdash: of its wheel, else of its checkout with the commit."""

import re
import tomllib
from contextlib import suppress
from importlib import metadata
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT = 9
# Beside a copy of a checkout, as a release and a bundle have it: the version of that.
KEPT = "VERSION"


def find_version(folder: Path) -> str:
    """ "0.2.0", or "0.2.0 at 1a2b3c4d5" in a checkout of Git; "" where nothing tells it."""
    with suppress(OSError):
        return (folder / KEPT).read_text().strip()
    with suppress(OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        said = str(tomllib.loads((folder / "pyproject.toml").read_text())["project"]["version"])
        commit = _find_commit(folder)
        return f"{said} at {commit[:_SHORT]}" if commit else said
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("inferdash")
    return ""


def _find_commit(folder: Path) -> str:
    """Of what is checked out, read without Git; "" where it cannot be told."""
    with suppress(OSError, UnicodeError):
        git = folder / ".git"
        if git.is_file():  # another working tree of the same repository
            git = (folder / git.read_text().partition("gitdir:")[2].strip()).resolve()
        head = (git / "HEAD").read_text().strip()
        if _COMMIT.fullmatch(head):
            return head
        name = head.partition("ref:")[2].strip()
        common = git / "commondir"
        shared = (git / common.read_text().strip()).resolve() if common.is_file() else git
        return _read_reference(shared, name)
    return ""


def _read_reference(git: Path, name: str) -> str:
    if (git / name).is_file():
        return (git / name).read_text().strip()
    for line in (git / "packed-refs").read_text().splitlines():
        commit, _blank, named = line.partition(" ")
        if named == name and _COMMIT.fullmatch(commit):
            return commit
    return ""
