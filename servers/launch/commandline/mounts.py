"""Volumes and ports of a paste, as docker writes them: which are relative, a cache, or a project's."""

import re

from servers.launch.commandline.export import HF_CACHE
from servers.launch.commandline.tokens import LaunchCommand

_VOLUME = re.compile(r"[A-Za-z0-9][\w.-]*")  # of Docker, by its name
# Labels for SELinux, and what is so anyway: they say nothing of what is mounted.
_PLAIN_MODES = re.compile(r":(?:z|Z|rw)(?:,(?:z|Z|rw))*$")
# What inferdash gives every container.
GIVEN_ANYWAY = ("no-new-privileges", "no-new-privileges:true")
_RELATIVE = re.compile(r"\.|\$\{?PWD\b|\$\(pwd\)|`pwd`|%cd%", re.IGNORECASE)


def is_cache(volume: str) -> bool:
    volume = _PLAIN_MODES.sub("", volume)
    return volume.replace("${HOME}", "~").replace("$HOME", "~") == HF_CACHE


def is_relative(source: str) -> bool:
    """Whether a mount's source depends on the folder that the command is run in."""
    return _RELATIVE.match(source) is not None


def is_project_name(command: LaunchCommand, name: str) -> bool:
    """Whether compose puts its project's name before that of this volume or network."""
    is_name = _VOLUME.fullmatch(name) is not None
    return command.kind == "compose" and is_name and name not in command.real_names


def read_port(text: str) -> tuple[str, int, int] | None:
    """Address, port on the host, port in the container; None for ranges and other protocols."""
    match = re.fullmatch(
        r"(?:(\[[0-9a-fA-F:]+\]|\d+\.[\d.]+|localhost):)?(?:(\d{0,5}):)?(\d{1,5})(?:/tcp)?", text
    )
    if match is None:
        return None
    address = (match[1] or "0.0.0.0").strip("[]")  # noqa: S104 - what Docker does
    return "127.0.0.1" if address == "localhost" else address, int(match[2] or 0), int(match[3])
