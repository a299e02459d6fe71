"""The variables of a draft: which stay, which are secrets, and which name files of the box."""

from collections.abc import Collection
from dataclasses import dataclass, field

from servers.launch.commandline import bare_process, docker_options, text_boxes, tokens
from servers.launch.commandline.export import HF_TOKEN
from servers.launch.commandline.import_notes import NoteList
from servers.launch.commandline.tokens import LaunchCommand

HF_TOKENS = (HF_TOKEN, "HUGGING_FACE_HUB_TOKEN")
_NO_VALUE = (
    " has no value in the paste: write it.",
    " have no value in the paste: write them.",
)


@dataclass(kw_only=True)
class EnvironmentDraft:
    env: dict[str, str] = field(default_factory=dict)
    # Name -> value, "" where the paste has none.
    secrets: dict[str, str] = field(default_factory=dict)
    passes_token: bool = False
    mounts: tuple[str, ...] = ()  # of the files that variables name
    gpus: str = "all"


def draft_environment(
    command: LaunchCommand, of_fields: Collection[str], notes: NoteList
) -> EnvironmentDraft:
    """`of_fields`: variables that have become fields of the profile."""
    made = EnvironmentDraft()
    is_bare = command.kind == "engine_command"
    places = bare_process.places(command.env) if is_bare else ()
    for name in places:
        one = ": a path of the box; the container has its own."
        several = ": paths of the box; the container has its own."
        notes.group("ignored", f"{name}={command.env[name]}", one, several)
    for name, value in command.env.items():
        if name not in of_fields and name not in places:
            _take(made, name, value, notes)
    if is_bare:
        _mount_files(made, notes)
    for file in command.env_file:
        says = f"The variables of {file} are not in the paste: write them here."
        notes.add("unresolved", says)
    made.gpus = _find_gpus(command, made, notes)
    return made


def note_no_value(notes: NoteList, name: str) -> None:
    notes.group("unresolved", name, *_NO_VALUE)


def _take(made: EnvironmentDraft, name: str, value: str | None, notes: NoteList) -> None:
    is_secret = text_boxes.is_secret(name) or text_boxes.is_token(value or "")
    is_open = tokens.is_secret_open(value) if is_secret else value is None
    if name in HF_TOKENS and is_open:
        made.passes_token = True
        known = "" if name == HF_TOKEN else f" ({HF_TOKEN})"
        notes.add("assumed", f"{name} is the box's own Hugging Face token{known}.")
    elif is_secret:
        made.secrets[name] = "" if is_open or value is None else value
        if is_open:
            note_no_value(notes, name)
    elif value is None:
        note_no_value(notes, name)
        made.env[name] = ""
    else:
        made.env[name] = value


def _mount_files(made: EnvironmentDraft, notes: NoteList) -> None:
    for name, value in list(made.env.items()):
        if not bare_process.is_file(name, value):
            continue
        inside = bare_process.find_inside(value)
        made.env[name] = inside
        made.mounts += (f"{value}:{inside}:ro",)
        one = ": this file of the box is mounted, so that the container sees it."
        several = ": these files of the box are mounted, so that the container sees them."
        notes.group("assumed", f"{name}={value}", one, several)


def _find_gpus(command: LaunchCommand, made: EnvironmentDraft, notes: NoteList) -> str:
    wanted = docker_options.find_requested_gpus(command, made.env)
    if wanted.order:
        made.env[wanted.variable] = wanted.order
    else:
        made.env.pop(wanted.variable, None)
    if wanted.assumed:
        notes.add("assumed", wanted.assumed)
    if wanted.unresolved:
        notes.add("unresolved", wanted.unresolved)
    return wanted.gpus
