"""The container of a draft: what a paste says of volumes, limits and restarts as fields of a launch."""

from collections.abc import Iterator
from typing import Any

from servers.launch import sizes
from servers.launch.commandline import docker_options, mounts
from servers.launch.commandline.import_notes import NoteList
from servers.launch.commandline.text_boxes import ulimit
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines.launch import FIELDS


def draft_container(
    command: LaunchCommand, entrypoint: tuple[str, ...], notes: NoteList
) -> dict[str, Any]:
    """Fields of Launch; what they cannot hold of the paste is in the notes."""
    return {
        "volumes": tuple(_list_volumes(command, notes)),
        # A paste rarely says --init, and every engine here needs it.
        **{
            of: _read_option(FIELDS[of].kind, getattr(command, name), notes)
            for name, of in docker_options.OF_LAUNCH.items()
            if of != "init"
        },
        "entrypoint": entrypoint,
        "ulimits": _read_ulimits(command, notes),
        "devices": tuple(d for d in command.devices if not docker_options.is_gpu(d)),
        "security_opt": tuple(_list_security(command, notes)),
        **_read_restart(command, notes),
    }


def _read_option(kind: str, said: Any, notes: NoteList) -> Any:
    if kind == "size":
        return _read_size(said, notes)
    return "" if said is None else said


def _list_security(command: LaunchCommand, notes: NoteList) -> Iterator[str]:
    for option in command.security_opt:
        if option.replace("=", ":") in mounts.GIVEN_ANYWAY:
            notes.add("assumed", f"--security-opt {option}: every container here has it.")
        else:
            yield option


def _read_restart(command: LaunchCommand, notes: NoteList) -> dict[str, Any]:
    values, says = docker_options.read_restart(command.restart or "")
    if says:
        notes.add("assumed" if values else "unresolved", says)
    return values


def _list_volumes(command: LaunchCommand, notes: NoteList) -> Iterator[str]:
    for text in command.volumes:
        source = text.partition(":")[0]
        if ":" not in text:
            notes.add("ignored", f"-v {text}: a volume without a source keeps nothing.")
            continue
        if mounts.is_cache(text):
            notes.add("assumed", f"{text} is the box's own Hugging Face cache.")
            continue
        if mounts.is_relative(source):
            several = " are relative. Write the paths on the box."
            one = " is relative. Write the path on the box."
            notes.group("unresolved", source, one, several)
        elif mounts.is_project_name(command, source):
            notes.group(
                "unresolved",
                f"volumes: {source}",
                ": compose puts its project's name before it. Write it as docker volume ls shows it, "
                f"or {source} begins empty.",
                ": compose puts its project's name before them. Write them as docker volume ls shows "
                "them, or they begin empty.",
            )
        yield text


def _read_size(text: str | None, notes: NoteList) -> int:
    if not text:
        return 0
    try:
        return sizes.read(text)
    except ValueError as error:
        notes.add("unresolved", str(error))
        return 0


def _read_ulimits(command: LaunchCommand, notes: NoteList) -> dict[str, int]:
    found = {}
    for name, text in command.ulimits.items():
        soft, _colon, hard = text.partition(":")
        limit = ulimit(hard or soft)
        if limit is None:
            notes.add("unresolved", f"--ulimit {name}={text[:60]} is no number.")
            continue
        if hard and hard != soft:
            says = f"--ulimit {name}={text}: {hard} counts, as soft and hard limit."
            notes.add("assumed", says)
        found[name] = limit
    return found
