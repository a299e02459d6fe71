"""A shell in a container and what is typed there, as guides print it, read as one command."""

from collections.abc import Sequence
from dataclasses import replace

from servers.launch.commandline.command import LaunchCommand
from servers.launch.commandline.engine_words import is_shell

# Containers that wait for somebody to `docker exec` into them.
_WAITS = (["sleep", "infinity"], ["tail", "-f", "/dev/null"])


def join_exec_commands(commands: Sequence[LaunchCommand]) -> list[LaunchCommand]:
    """Engines that follow a container with nothing but a shell, or that waits, run in that container.

    That container alone is left out then: it starts nothing.
    """
    found: list[LaunchCommand] = []
    around: LaunchCommand | None = None
    for command in commands:
        if command.kind == "engine_command" and around is not None:
            if found[-1] is around:
                found.pop()
            found.append(_inside(around, command))
            continue
        around = command if _opens_shell(command) else None
        found.append(command)
    return found


def _opens_shell(command: LaunchCommand) -> bool:
    entrypoint = command.entrypoint
    first = (entrypoint,) if isinstance(entrypoint, str) else entrypoint or ()
    words = [word for word in (*first, *command.command) if word]
    if command.kind != "docker_run" or not words:
        return False
    is_empty = all(word in ("-l", "-i", "--login") for word in words[1:])
    return (is_shell(words[0]) and is_empty) or words in _WAITS


def _inside(around: LaunchCommand, command: LaunchCommand) -> LaunchCommand:
    return replace(
        around,
        engine=command.engine or around.engine,
        entrypoint=None,
        command=command.command,
        env={**around.env, **command.env},
        unresolved=tuple(dict.fromkeys((*around.unresolved, *command.unresolved))),
        ignored=(*around.ignored, *command.ignored),
    )
