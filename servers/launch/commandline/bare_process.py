"""Paths in a command without a container, mapped to mounts."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from servers.launch.commandline.tokens import LaunchCommand

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


def model(said: str) -> MountedModel:
    """What such a command's checkpoint needs in a container."""
    if is_relative(said):
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


def is_relative(said: str) -> bool:
    """Whether it names a file by where somebody stood."""
    # One blob of a Hub's repository is written with a colon: org/name:Q4_K_M.
    is_file = said.endswith((".gguf", ".jinja")) and not said.startswith(("/", "~", "$", "http"))
    return said.startswith(("./", "../")) or is_file


def find_inside(path: str) -> str:
    """Where a file or folder of the box stands in the container."""
    return path if path.startswith("/") else f"/models/{path.rsplit('/', 1)[-1]}"


def places(env: Mapping[str, str | None]) -> tuple[str, ...]:
    """The variables that name folders of the box. A container has folders of its own."""
    return tuple(
        name for name, value in env.items() if _NAMED_PLACE.search(name) and _begins(value or "")
    )


def is_file(name: str, value: str) -> bool:
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


def unseen(flags: tuple[str, ...], volumes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Flags with the paths of the box that none of these mounts brings into the container."""
    targets = [volume.split(":")[1].rstrip("/") for volume in volumes if ":" in volume]
    for at, word in enumerate(flags):
        flag, equals, value = word.partition("=")
        if not word.startswith("-"):
            flag = next((each for each in reversed(flags[:at]) if each.startswith("-")), "")
            value = value if equals and not _PATH.match(word) else word
        if flag in _OF_URLS or flag in IN_REPOSITORY:
            continue
        if not (_PATH.match(value) or is_relative(value)):
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
