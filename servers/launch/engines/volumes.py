"""Volumes, written "source:target[:ro]" and resolved for one box."""

import posixpath
import re
from dataclasses import dataclass
from typing import Literal

_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\})(?=/|\Z)")


class VolumeError(Exception):
    """A volume that cannot be understood; the text is fit for a person."""


@dataclass(frozen=True, kw_only=True)
class Volume:
    kind: Literal["bind", "volume"]
    source: str  # an absolute path on the box, or a volume's name
    target: str  # an absolute path in the container
    read_only: bool


def parse(text: str, *, home: str) -> Volume:
    """Read `docker run -v`'s notation. `home` is where ~ and $HOME lead on the box.

    Raises VolumeError. Relative sources are refused: they would mean the worker's folder.
    """
    parts = text.strip().split(":")
    if len(parts) < 2 or len(parts) > 3 or not all(parts):
        raise VolumeError(f"“{text}” is not source:target or source:target:ro.")
    source, target, options = parts[0], parts[1], parts[2].split(",") if len(parts) == 3 else []
    unknown = [option for option in options if option not in ("ro", "rw", "z", "Z")]
    if unknown:
        raise VolumeError(f"“{text}”: the option {unknown[0]} is not supported. Use ro or rw.")
    if not target.startswith("/"):
        raise VolumeError(f"“{text}”: the target {target} must be an absolute path.")
    read_only = "ro" in options
    target = "/" + posixpath.normpath(target).lstrip("/")
    if _NAMED.match(source):
        return Volume(kind="volume", source=source, target=target, read_only=read_only)
    path = resolve(source, home=home)
    return Volume(kind="bind", source=path, target=target, read_only=read_only)


def resolve(path: str, *, home: str) -> str:
    """An absolute path on the box: ~, $HOME and ${HOME} at the start become `home`.

    Raises VolumeError for relative paths, for other variables, and when the home folder
    is needed and not known.
    """
    if _HOME.match(path):
        if not home:
            raise VolumeError(
                f"“{path}” needs the box's home folder, which is not set. "
                "Set it under Settings, Boxes."
            )
        path = _HOME.sub(lambda _: home, path, count=1)
    if "$" in path:
        raise VolumeError(f"“{path}”: only $HOME is known here. Write the path out.")
    if not path.startswith("/"):
        raise VolumeError(f"“{path}” must be an absolute path, ~/… or $HOME/….")
    # POSIX lets normpath keep two slashes in front.
    return "/" + posixpath.normpath(path).lstrip("/")
