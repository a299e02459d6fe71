"""Meanings of single options: ports, caches, scripts, and why some are left out."""

import re

from servers.launch.commandline import engine_words
from servers.launch.commandline.command import LaunchCommand
from servers.launch.commandline.export import HF_CACHE

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


def kept_script(command: LaunchCommand) -> tuple[str, ...]:
    """The shell and its script, where the script does more than start the engine."""
    entrypoint = command.entrypoint
    first = (entrypoint,) if isinstance(entrypoint, str) and entrypoint else entrypoint or ()
    argv = (*first, *command.command)
    script = engine_words.shell_script(argv)
    if script is None or len(engine_words.simple_commands(script)) < 2:
        return ()
    return (*argv[: argv.index(script)], script)


def port(text: str) -> tuple[str, int, int] | None:
    """Address, port on the host, port in the container; None for ranges and other protocols."""
    match = re.fullmatch(
        r"(?:(\[[0-9a-fA-F:]+\]|\d+\.[\d.]+|localhost):)?(?:(\d{0,5}):)?(\d{1,5})(?:/tcp)?", text
    )
    if match is None:
        return None
    address = (match[1] or "0.0.0.0").strip("[]")  # noqa: S104 - what Docker does
    return "127.0.0.1" if address == "localhost" else address, int(match[2] or 0), int(match[3])


def why_ignored(option: str) -> str:
    name = option.split()[0].partition("=")[0]
    if name in ("-it", "-i", "-t", "--interactive", "--tty"):
        return "an engine needs no terminal; its log is on the page."
    if name in ("-d", "--detach", "-itd", "-dit"):
        return "containers always run in the background here."
    if name.endswith(".sh"):
        return "what this script adds to the command is not in the paste."
    if name in ("--cap-drop", "--pids-limit"):
        return "inferdash takes rights from every container itself, and limits its processes."
    if name == "--rm":
        return "inferdash removes the container itself, once its log is kept."
    return "a profile has no place for it."
