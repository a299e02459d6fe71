"""The container of a draft: a paste's volumes, limits, variables and files of the box as a launch's fields."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from servers.launch.commandline import docker_options, text_boxes, tokens
from servers.launch.commandline.export import HF_CACHE, HF_TOKEN
from servers.launch.commandline.import_notes import NoteList
from servers.launch.commandline.text_boxes import ulimit
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines.launch import FIELDS
from servers.launch.numbers import read_size

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
        if option.replace("=", ":") in GIVEN_ANYWAY:
            notes.say("security-given", option=option)
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
            notes.say("volume-without-source", volume=text)
            continue
        if is_cache(text):
            notes.say("volume-cache", volume=text)
            continue
        if is_relative(source):
            notes.gather("volume-relative", source)
        elif is_project_name(command, source):
            notes.gather("volume-of-project", f"volumes: {source}", source=source)
        yield text


def _read_size(text: str | None, notes: NoteList) -> int:
    if not text:
        return 0
    try:
        return read_size(text)
    except ValueError as error:
        notes.add("unresolved", str(error))
        return 0


def _read_ulimits(command: LaunchCommand, notes: NoteList) -> dict[str, int]:
    found = {}
    for name, text in command.ulimits.items():
        soft, _colon, hard = text.partition(":")
        limit = ulimit(hard or soft)
        if limit is None:
            notes.say("ulimit-no-number", name=name, text=text[:60])
            continue
        if hard and hard != soft:
            notes.say("ulimit-hard", name=name, text=text, hard=hard)
        found[name] = limit
    return found


# Of a variable, and what such a value begins with: the box's folders and search paths.
_NAMED_PLACE = re.compile(r"(^|_)(HOME|PATH|DIR|CACHE|ROOT|ENV)$")
# Of a variable that names one file, and what such a value looks like.
_NAMED_FILE = re.compile(r"(^|_)(FILE|CONFIG|JSON|XML|TEMPLATE|PLUGIN)$")
_FILE = re.compile(r"(?:~|\$HOME|\$\{HOME\})?/[^\s:$]*\w\.[A-Za-z]\w{0,9}")
_BOX = ("/", "~", "$")
_PATH = re.compile(r"(?:~|\.{1,2}|\$HOME|\$\{HOME\})?/\S")
# Their values are names of files in a repository of the Hub.
IN_REPOSITORY = ("-hff", "--hf-file", "-hffd", "--hf-file-draft", "-hffv", "--hf-file-v")
# Their values look like paths, and are those of URLs.
_OF_URLS = ("--root-path", "--fastapi-root-path", "--api-prefix")
_SPLIT = re.compile(r"(?P<name>.+)-[0-9]{5}-of-(?P<count>[0-9]{5})\.gguf")
_MOST_PARTS = 200


@dataclass(frozen=True, kw_only=True)
class MountedModel:
    inside: str  # its checkpoint, as the container sees it
    mounts: tuple[str, ...] = ()
    assumed: str = ""
    unresolved: str = ""


def mount_model(said: str) -> MountedModel:
    """What such a command's checkpoint needs in a container."""
    if names_relative(said):
        says = f"{said} is relative. Write its path on the box, and mount it."
        return MountedModel(inside=said, unresolved=says)
    if not _PATH.match(said):
        return MountedModel(inside=said)
    source = said.rstrip("/")
    more = " and its other parts are" if len(_parts(source)) > 1 else " is"
    return MountedModel(
        inside=find_inside(source),
        mounts=tuple(f"{part}:{find_inside(part)}:ro" for part in _parts(source)),
        assumed=f"{source}{more} mounted, so that the container sees the model.",
    )


def names_relative(said: str) -> bool:
    """Whether it names a file by where somebody stood."""
    # One blob of a Hub's repository is written with a colon: org/name:Q4_K_M.
    names_file = said.endswith((".gguf", ".jinja")) and not said.startswith(("/", "~", "$", "http"))
    return said.startswith(("./", "../")) or names_file


def find_inside(path: str) -> str:
    """Where a file or folder of the box stands in the container."""
    return path if path.startswith("/") else f"/models/{path.rsplit('/', 1)[-1]}"


def list_places(env: Mapping[str, str | None]) -> tuple[str, ...]:
    """The variables that name folders of the box. A container has folders of its own."""
    return tuple(
        name for name, value in env.items() if _NAMED_PLACE.search(name) and _begins(value or "")
    )


def names_file(name: str, value: str) -> bool:
    """Whether a variable names a file of the box, which a container does not see."""
    is_path = _PATH.match(value) is not None and not re.search(r"[\s:]", value)
    return is_path and (_NAMED_FILE.search(name) is not None or _FILE.fullmatch(value) is not None)


def _begins(value: str) -> bool:
    return value.startswith(_BOX)


def _parts(path: str) -> tuple[str, ...]:
    """All files of a GGUF that was cut into several, of which an engine is told one."""
    match = _SPLIT.fullmatch(path)
    count = int(match["count"]) if match else 0
    if match is None or not 1 < count <= _MOST_PARTS:
        return (path,)
    return tuple(f"{match['name']}-{n:05}-of-{count:05}.gguf" for n in range(1, count + 1))


def list_unseen(flags: tuple[str, ...], volumes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Flags with the paths of the box that none of these mounts brings into the container."""
    targets = [volume.split(":")[1].rstrip("/") for volume in volumes if ":" in volume]
    for at, word in enumerate(flags):
        flag, equals, value = word.partition("=")
        if not word.startswith("-"):
            flag = next((each for each in reversed(flags[:at]) if each.startswith("-")), "")
            value = value if equals and not _PATH.match(word) else word
        if flag in _OF_URLS or flag in IN_REPOSITORY:
            continue
        if not (_PATH.match(value) or names_relative(value)):
            continue
        if not any(value == target or value.startswith(f"{target}/") for target in targets):
            yield flag, value


# Builds that the official images are not, by the path of the program, devices, flags or variables.
_BUILDS = (
    (
        "ik_llama.cpp",
        re.compile(r"ik_llama|(?:^|\s)(?:-fmoe|-rtr|-amb|-mla|-ser|-gr|-smgs)(?:\s|$)"),
    ),
    ("a build for Vulkan", re.compile(r"(?i)vulkan|GGML_VK_")),
    (
        "a build for AMD’s GPUs",
        re.compile(r"(?i)\brocm|\bhip\b|HIP_VISIBLE|ROCR_|HSA_OVERRIDE|VLLM_ROCM"),
    ),
    ("a build for Intel’s GPUs", re.compile(r"(?i)\bsycl|ONEAPI_|ZE_AFFINITY")),
)


def describe_build(command: LaunchCommand) -> str:
    """The build of an engine that a command without a container shows to be another; "" for none."""
    said = " ".join([*command.env, *command.command])
    for title, signs in _BUILDS:
        if signs.search(said) and not (title == "ik_llama.cpp" and command.engine != "llamacpp"):
            return title
    return ""


HF_TOKENS = (HF_TOKEN, "HUGGING_FACE_HUB_TOKEN")


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
    places = list_places(command.env) if is_bare else ()
    for name in places:
        notes.gather("variable-of-path", f"{name}={command.env[name]}")
    for name, value in command.env.items():
        if name not in of_fields and name not in places:
            _take(made, name, value, notes)
    if is_bare:
        _mount_files(made, notes)
    for file in command.env_file:
        notes.say("env-file", file=file)
    made.gpus = _find_gpus(command, made, notes)
    return made


def note_no_value(notes: NoteList, name: str) -> None:
    notes.gather("no-value", name)


def _take(made: EnvironmentDraft, name: str, value: str | None, notes: NoteList) -> None:
    is_secret = text_boxes.is_secret(name) or text_boxes.is_token(value or "")
    is_open = tokens.is_secret_open(value) if is_secret else value is None
    if name in HF_TOKENS and is_open:
        made.passes_token = True
        known = "" if name == HF_TOKEN else f" ({HF_TOKEN})"
        notes.say("token-of-box", name=name, known=known)
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
        if not names_file(name, value):
            continue
        inside = find_inside(value)
        made.env[name] = inside
        made.mounts += (f"{value}:{inside}:ro",)
        notes.gather("file-mounted", f"{name}={value}")


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
