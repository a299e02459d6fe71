"""A container or process that somebody else has started beside what a profile of it would start."""

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from servers.launch.commandline import engine_words, text_boxes
from servers.launch.commandline.docker_options import LISTS, OF_LAUNCH
from servers.launch.commandline.engine_words import split_engine_words
from servers.launch.commandline.inspect import SHM_SIZE, command_of
from servers.launch.engines.change import split_flags
from servers.launch.engines.engine import SECRET_FLAGS
from servers.launch.engines.launch import FIELDS
from servers.launch.numbers import format_size
from servers.launch.spec import Mount, Port, Spec

type Json = Mapping[str, Any]
type Verdict = Literal["differs", "same", "image"]

TITLES: dict[Verdict, str] = {
    "differs": "Differs",
    "image": "Left out, because it comes from the image",
    "same": "The same",
}
MASK = "•••"


@dataclass(frozen=True, kw_only=True)
class ComparedField:
    """One thing of both. "": not said on that side. Secrets are masked, and compared all the same."""

    what: str
    theirs: str
    ours: str
    verdict: Verdict

    def to_json(self) -> list[str]:
        return [self.what, self.theirs, self.ours, self.verdict]

    @classmethod
    def from_json(cls, said: Sequence[str]) -> Self:
        what, theirs, ours, verdict = said
        return cls(what=what, theirs=theirs, ours=ours, verdict=verdict)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class _Value:
    """What is compared, and what of it may be shown."""

    value: str
    shown: str

    @classmethod
    def from_variable(cls, name: str, value: str) -> Self:
        hidden = name in SECRET_FLAGS or text_boxes.is_secret(name) or text_boxes.is_token(value)
        return cls(value=value, shown=MASK if hidden and value else value)


type _Said = dict[str, _Value]

# What most people look for stands first; the rest follows in the order of LaunchCommand.
_FIRST = ("IPC", "shared memory", "runtime", "user", "working folder", "cores", "init process")


def of_container(
    container: Json, image: Json | None, spec: Spec, entrypoint: Sequence[str]
) -> tuple[ComparedField, ...]:
    """What differs comes first, what the image brings second, what is the same last.

    `container` and `image` are Docker's JSON, None for an image that is gone. `spec` is what the
    profile would start, `entrypoint` that image's own.
    """
    own = (image or {}).get("Config") or {}
    theirs = _theirs(container, image)
    ours = _ours(spec, entrypoint)
    return _rows(theirs, ours, _of_image(container["Config"], own))


def of_process(
    argv: Sequence[str], env: Mapping[str, str], spec: Spec, entrypoint: Sequence[str]
) -> tuple[ComparedField, ...]:
    """The same of a process in no container: its words, and those variables that a profile keeps."""
    program, of_it = _program((), argv, env)
    return _rows(program | _environment(env, of_it), _ours(spec, entrypoint), ())


def _rows(theirs: _Said, ours: _Said, image: Iterable[ComparedField]) -> tuple[ComparedField, ...]:
    found: list[ComparedField] = []
    nothing = _Value(value="", shown="")
    for what in {**theirs, **ours}:
        there, here = theirs.get(what, nothing), ours.get(what, nothing)
        verdict: Verdict = "same" if there.value == here.value else "differs"
        found.append(ComparedField(what=what, theirs=there.shown, ours=here.shown, verdict=verdict))
    order = list(TITLES)
    return tuple(sorted([*found, *image], key=lambda row: order.index(row.verdict)))


def _theirs(container: Json, image: Json | None) -> _Said:
    command = command_of(container, image)
    env = {name: value or "" for name, value in command.env.items()}
    gpus = command.gpus
    said = {
        "image": command.image or "",
        "GPUs": f"{gpus} of them" if isinstance(gpus, int) else _join_gpus(gpus or "none"),
        "network": command.network or "bridge",
        **_options({of: getattr(command, name) for name, of in OF_LAUNCH.items()}),
        "Docker's restart policy": command.restart or "no",
    }
    said |= {f"port {_port_name(each)}": _port_place(each) for each in command.ports}
    said |= _mounts(command.volumes)
    said |= _lists({of: getattr(command, name) for name, of in OF_LAUNCH.items()})
    said |= _list_ignored(command.ignored)
    config = container["Config"]
    program, of_it = _program(config.get("Entrypoint") or (), config.get("Cmd") or (), env)
    return _values(said) | program | _environment(env, of_it)


def _ours(spec: Spec, entrypoint: Sequence[str]) -> _Said:
    said = {
        "image": spec.image,
        "GPUs": spec.gpus,
        "network": spec.network,
        **_options({of: getattr(spec, of) for of in OF_LAUNCH.values()}),
        "Docker's restart policy": spec.restart,
    }
    said |= {f"port {port.container_port}": _place(port) for port in spec.ports}
    said |= _mounts(map(_mount, spec.mounts))
    said |= _lists({of: getattr(spec, of) for of in OF_LAUNCH.values()})
    said |= _each("without the capability", spec.cap_drop)
    if spec.pids_limit:
        said["--pids-limit"] = str(spec.pids_limit)
    if spec.pid:
        said["--pid"] = spec.pid
    program, of_it = _program(spec.entrypoint or entrypoint, spec.command, spec.env)
    return _values(said) | program | _environment(spec.env, of_it)


def _options(values: Json) -> dict[str, str]:
    """The container's options that have one value, by their titles."""
    found = dict.fromkeys(_FIRST, "")
    for name, value in values.items():
        kind, title = FIELDS[name].kind, FIELDS[name].title
        if kind == "switch":
            found[title] = "yes" if value else "no"
        elif kind == "size":
            found[title] = format_size(int(value or SHM_SIZE))
        elif kind in ("text", "ipc"):
            found[title] = value or ("private" if kind == "ipc" else "")
    return found


def _lists(values: Json) -> dict[str, str]:
    """Those that have several, one by one."""
    found = {f"ulimit {name}": str(limit) for name, limit in values["ulimits"].items()}
    for name, said in values.items():
        if FIELDS[name].kind in LISTS:
            found |= _each(
                FIELDS[name].title, map(_option, said) if name == "security_opt" else said
            )
    return found


def _values(said: Mapping[str, str]) -> _Said:
    return {name: _Value.from_variable(name, value) for name, value in said.items() if value}


def _program(
    entrypoint: Sequence[str], said: Sequence[str], env: Mapping[str, str]
) -> tuple[_Said, frozenset[str]]:
    """What an engine's words say, flag by flag, and the variables that count as such words; all
    words where no engine is found in them.

    An entrypoint may be a script that runs what it is given.
    """
    argv = [*entrypoint, *said]
    found = engine_words.find(argv) or engine_words.find(said)
    if found is None:
        return _values({"command": shlex.join(argv)}), frozenset()
    engine, own = found
    split = split_engine_words(engine, own, env)
    words_of_it = {
        "model": split.checkpoint or "",
        "served name": split.served_name or "",
        "engine's port": split.port or "",
        "engine listens at": split.host or "",
    }
    for name, values in split_flags(split.flags):
        key = name.replace("_", "-")
        text = shlex.join(values) or "yes"
        known = words_of_it.get(key)
        words_of_it[key] = f"{known} · {text}" if known else text
    return _values(words_of_it), split.variables


def _environment(env: Mapping[str, str], of_program: Collection[str]) -> _Said:
    return {
        f"${name}": _Value.from_variable(name, value)
        for name, value in env.items()
        if name not in of_program
    }


def _of_image(config: Json, own: Json) -> list[ComparedField]:
    """What the container has from its image: the profile's container has it from there, too."""
    said: dict[str, str] = {}
    if own.get("Entrypoint") and config.get("Entrypoint") == own["Entrypoint"]:
        said["entrypoint"] = shlex.join(own["Entrypoint"])
    of_image = set(own.get("Env") or ())
    for text in config.get("Env") or ():
        name, _equals, value = text.partition("=")
        if text in of_image:
            said[f"${name}"] = _Value.from_variable(name, value).shown
    for name, key in (("user", "User"), ("working folder", "WorkingDir")):
        if own.get(key) and config.get(key) == own[key]:
            said[name] = str(own[key])
    for folder in own.get("Volumes") or ():
        said[f"volume {folder}"] = "without a name"
    return [
        ComparedField(what=what, theirs=value, ours="", verdict="image")
        for what, value in said.items()
    ]


def _each(kind: str, names: Iterable[str]) -> dict[str, str]:
    return {f"{kind} {name}": "yes" for name in names}


def _list_ignored(options: Iterable[str]) -> dict[str, str]:
    """What a profile has no place for, and inferdash gives its containers all the same."""
    found: dict[str, str] = {}
    for option in options:
        flag, _space, value = option.partition(" ")
        if flag == "--cap-drop":
            found |= _each("without the capability", [value.removeprefix("CAP_")])
        else:
            found[flag] = value or "yes"
    return found


def _option(said: str) -> str:
    return said.replace("=", ":").removesuffix(":true")


def _join_gpus(gpus: str | tuple[str, ...]) -> str:
    return gpus if isinstance(gpus, str) else ",".join(gpus)


def _mounts(volumes: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in volumes:
        source, _colon, rest = text.partition(":")
        target, _colon, option = rest.partition(":")
        found[f"mount {target}"] = f"{source}, read only" if option == "ro" else source
    return found


def _mount(mount: Mount) -> str:
    text = f"{mount.source}:{mount.target}"
    return f"{text}:ro" if mount.read_only else text


def _port_name(text: str) -> str:
    return text.rpartition(":")[2]


def _port_place(text: str) -> str:
    """As "0.0.0.0:8000", or with "any" for a port that Docker chooses."""
    before = text.rpartition(":")[0]
    address, colon, port = before.rpartition(":")
    return f"{address if colon and address else '0.0.0.0'}:{port or 'any'}"  # noqa: S104 - Docker's


def _place(port: Port) -> str:
    return f"{port.host_ip or '0.0.0.0'}:{port.host_port or 'any'}"  # noqa: S104 - Docker's
