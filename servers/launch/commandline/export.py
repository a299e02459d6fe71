"""A launch as commands and compose files again."""

import re
import shlex
from typing import Any

import yaml

from servers.launch.commandline import docker_options
from servers.launch.commandline.compose import TYPOGRAPHIC_QUOTES
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.commandline.variables import ALWAYS_SET, WORKING_DIRECTORY
from servers.launch.engines import ENGINES, known_entrypoint, placement
from servers.launch.engines.engine import listens_beyond_loopback
from servers.launch.engines.launch import FIELDS, Launch, fill_parameters
from servers.launch.numbers import format_size

_NAMED = re.compile(r"\$(?:env:)?\{?[!#]?(\w+|[@*#?])")
_VARIABLE = r"\$(?:env:)?(?:\{[^}]*\}|[A-Za-z_]\w*|[0-9@*#?])"
_BUILT_IN_NETWORK = re.compile(r"host$|none$|bridge$|(?:container|service):")
_PATH = re.compile(r"[./~$]|[A-Za-z]:\\")


def render_docker_run(command: LaunchCommand) -> str:
    """The `docker run` that says the same; reading it gives the same Command.

    `unresolved` may come in another order. Three things have no such form: a compose service's name and what it ignored, and the further
    words of an entrypoint, which become the first of the command. Raises ValueError without image.
    """
    if command.image is None:
        raise ValueError("A command without an image is no docker run.")
    quote = _Quoting(command)
    rows = ["docker run"]
    if command.kind == "docker_run":
        rows += [quote.option(each) for each in command.ignored if _is_dockers(each)]
    rows += [f"{option} {quote(value)}" for option, value in _options(command)]
    rows += [f"-e {quote(name if v is None else f'{name}={v}')}" for name, v in command.env.items()]
    switches = docker_options.SWITCHES.items()
    rows += [f"--{each.docker}" for name, each in switches if getattr(command, name)]
    words = command.command
    if isinstance(command.entrypoint, tuple):
        words = command.entrypoint[1:] + words
    rows.append(" ".join([quote(command.image), *_rows(quote, words)[:1]]))
    rows += _rows(quote, words)[1:]
    return " \\\n  ".join(rows)


def engine_line(command: LaunchCommand) -> str:
    """A bare engine command with its environment in front."""
    quote = _Quoting(command)
    env = [f"{name}={quote(value or '')}" for name, value in command.env.items()]
    return " \\\n  ".join([*env, *_rows(quote, command.command)])


def render_compose(command: LaunchCommand) -> str:
    """A compose file with this one service; reading it gives the same Command but for `ignored`.

    $(commands), which compose does not know, are written as plain text.
    """
    escape = _Quoting(command).escape
    service: dict[str, Any] = {}
    for key, name in _COMPOSE_KEYS.items():
        value = getattr(command, name)
        if isinstance(value, tuple) and value:
            service[key] = [escape(each) for each in value]
        elif isinstance(value, bool) or value is None or value == ():
            service |= {key: True} if value else {}
        else:
            service[key] = escape(str(value))
    if command.entrypoint is not None and not isinstance(command.entrypoint, tuple):
        service["entrypoint"] = escape(
            shlex.quote(command.entrypoint) if command.entrypoint else ""
        )
    if command.env:
        service["environment"] = {
            name: None if value is None else escape(value) for name, value in command.env.items()
        }
    if command.ulimits:
        service["ulimits"] = {name: _limit(value) for name, value in command.ulimits.items()}
    if command.gpus is not None:
        service["deploy"] = {"resources": {"reservations": {"devices": [_device(command, escape)]}}}
    document: dict[str, Any] = {"services": {command.service or command.name or "server": service}}
    if command.network and not _BUILT_IN_NETWORK.match(command.network):
        service["networks"] = [escape(command.network)]
        document["networks"] = {command.network: {"external": True}}
    elif command.network:
        service["network_mode"] = escape(command.network)
    sources = [each.partition(":")[0] for each in command.volumes if ":" in each]
    named = [source for source in sources if source and not _PATH.match(source)]
    if named:
        document["volumes"] = {name: {"name": name} for name in named}
    return yaml.dump(
        document, Dumper=_ComposeDumper, sort_keys=False, allow_unicode=True, width=100
    )


class _ComposeDumper(yaml.SafeDumper):
    """Quotes a text that begins with a typographic quotation mark, which a reader takes away."""


def _represent_text(dumper: _ComposeDumper, text: str) -> yaml.ScalarNode:
    is_marked = text[:1] in tuple("".join(TYPOGRAPHIC_QUOTES))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_marked else None)


_ComposeDumper.add_representer(str, _represent_text)

_LISTED = docker_options.list_options(*docker_options.LISTS)
_COMPOSE_KEYS = {
    "image": "image",
    "container_name": "name",
    **{each: each for each in ("restart", "entrypoint", "command", "env_file", "volumes", "ports")},
    **{
        each.compose or name: name
        for name in docker_options.OF_LAUNCH
        if (each := (docker_options.TEXTS | _LISTED).get(name))
    },
    **{each.compose or name: name for name, each in docker_options.SWITCHES.items()},
}


def _is_dockers(written: str) -> bool:
    """Whether Docker has this option; podman's and nerdctl's own are left out."""
    name = written.split()[0].partition("=")[0]
    short = not name.startswith("--")
    return docker_options.option("docker", name[1] if short else name[2:]) is not None


def _options(command: LaunchCommand) -> list[tuple[str, str]]:
    entrypoint = command.entrypoint
    texts = {
        "--name": command.name,
        "--restart": command.restart,
        "--gpus": _render_gpus(command),
        "--runtime": command.runtime,
        "--network": command.network,
        **{f"--{each.docker}": getattr(command, n) for n, each in docker_options.TEXTS.items()},
        "--entrypoint": entrypoint[0] if isinstance(entrypoint, tuple) else entrypoint,
    }
    lists = {
        "--ulimit": tuple(f"{name}={value}" for name, value in command.ulimits.items()),
        **{f"--{each.docker}": getattr(command, name) for name, each in _LISTED.items()},
        "-p": command.ports,
        "-v": command.volumes,
        "--env-file": command.env_file,
    }
    found = [(option, value) for option, value in texts.items() if value is not None]
    return found + [(option, value) for option, values in lists.items() for value in values]


def _render_gpus(command: LaunchCommand) -> str | None:
    if isinstance(command.gpus, tuple):
        return f'"device={",".join(command.gpus)}"'
    return None if command.gpus is None else str(command.gpus)


def _device(command: LaunchCommand, escape: Any) -> dict[str, Any]:
    device: dict[str, Any] = {"driver": "nvidia"}
    if isinstance(command.gpus, tuple):
        device["device_ids"] = [escape(each) for each in command.gpus]
    else:
        is_text = isinstance(command.gpus, str)
        device["count"] = escape(command.gpus) if is_text else command.gpus
    return device | {"capabilities": ["gpu"]}


def _limit(text: str) -> Any:
    soft, colon, hard = text.partition(":")
    return {"soft": soft, "hard": hard} if colon else soft


def _rows(quote: "_Quoting", words: tuple[str, ...]) -> list[str]:
    """Words with each option and its values on a row of its own."""
    rows: list[str] = []
    for word in words:
        if rows and (not word.startswith("-") or len(rows[-1].split()) == 0):
            rows[-1] += f" {quote(word)}"
        else:
            rows.append(quote(word))
    return rows


class _Quoting:
    """Quotes a word so that a shell sees the variables that were left in it, and nothing else."""

    def __init__(self, command: LaunchCommand) -> None:
        self._names = {*command.unresolved, *ALWAYS_SET}
        substitutions = [each for each in command.unresolved if each[0] in "$`"]
        verbatim = [re.escape(each) for each in (*substitutions, *WORKING_DIRECTORY)]
        self._variable = re.compile("|".join([*verbatim, _VARIABLE]))

    def __call__(self, text: str) -> str:
        if not text:
            return "''"
        # A script is for the container's shell, whose HOME is another.
        names = self._names if not re.search(r"\s", text) else self._names - set(ALWAYS_SET)
        home = "~/" if text.startswith("~/") else ""
        found = home
        done = len(home)
        for match in self._variable.finditer(text, done):
            if self._stays(match[0], names):
                found += _literal(text[done : match.start()]) + f'"{match[0]}"'
                done = match.end()
        return found + _literal(text[done:])

    def option(self, written: str) -> str:
        """An ignored option as it was written: its value was quoted when it was read."""
        option, blank, value = written.partition(" ")
        return option + blank + (self(shlex.split(value)[0]) if value else "")

    def escape(self, text: str) -> str:
        """For a compose file: every dollar sign doubled that begins no variable."""
        found = ""
        done = 0
        for match in self._variable.finditer(text):
            if self._stays(match[0], self._names) and match[0][1:2] != "(" and match[0][0] == "$":
                found += text[done : match.start()].replace("$", "$$") + match[0]
                done = match.end()
        return found + text[done:].replace("$", "$$")

    def _stays(self, raw: str, names: set[str]) -> bool:
        if raw in names or raw in WORKING_DIRECTORY:
            return True
        match = _NAMED.match(raw)
        return match is not None and match[1] in names


def _literal(text: str) -> str:
    if not text:
        return ""
    if "\n" not in text:
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"$'{escaped}'"


# Where people keep it; a box may say another place.
HF_CACHE = "~/.cache/huggingface:/root/.cache/huggingface"
# Above a profile's own command: what a guide says of the host's network becomes a published port.
HOST_STAYS = "# --network: host stays"
# The same of a program that an export has to name, because the image's own entrypoint is not known:
# said behind one that is the program, it would be said twice.
PROGRAM_NAMED = "# --entrypoint: names the program"
HF_TOKEN = "HF_TOKEN"  # noqa: S105 - the variable's name


def command_of(launch: Launch, *, name: str = "") -> LaunchCommand:
    """What the profile says, without what a box adds. Values of secrets are left to the reader's
    own environment (`-e NAME`)."""
    launch = fill_parameters(launch)
    engine = ENGINES[launch.engine]
    env: dict[str, str | None] = {**launch.env, **dict.fromkeys(launch.secret_env)}
    if launch.serves_models and launch.pass_hf_token and HF_TOKEN not in env:
        env[HF_TOKEN] = None
    cache = (HF_CACHE,) if launch.serves_models and launch.mount_hf_cache else ()
    on_host = launch.network == "host"
    entrypoint = _find_entrypoint(launch)
    options = {
        name: _write(FIELDS[of].kind, getattr(launch, of))
        for name, of in docker_options.OF_LAUNCH.items()
    }
    if _names_program(launch):
        options["entrypoint"] = entrypoint
    return LaunchCommand(
        kind="docker_run",
        engine=engine.key,  # type: ignore[arg-type]
        name=name or None,
        image=launch.image,
        command=engine.command(launch, entrypoint),
        env=env,
        volumes=launch.volumes + cache,
        ports=() if on_host else (_format_port(launch, engine.port(launch)),),
        gpus=_gpus(launch.gpus),
        network=launch.network if launch.network != "bridge" else None,
        restart=docker_options.to_docker(launch),
        **options,
    )


def _find_entrypoint(launch: Launch) -> tuple[str, ...]:
    known = launch.entrypoint or known_entrypoint(launch.image)
    return ENGINES[launch.engine].program if known is None else known


def _names_program(launch: Launch) -> bool:
    """Whether an export says the program as the entrypoint, where the profile says none."""
    return (
        not launch.entrypoint
        and bool(_find_entrypoint(launch))
        and (known_entrypoint(launch.image) is None)
    )


def names_program(text: str) -> bool:
    """Whether a text is an export whose entrypoint is none of the profile's."""
    return PROGRAM_NAMED in text


def _write(kind: str, value: Any) -> Any:
    """The value of an option as a command has it; None, or empty, where it is not given."""
    if kind == "size":
        return format_size(value) if value else None
    if kind == "limits":
        return {name: str(count) for name, count in value.items()}
    return value if kind == "switch" or kind in docker_options.LISTS else value or None


def docker_run(launch: Launch, *, name: str = "") -> str:
    """With the reasons as comments above; reading it back gives the same launch."""
    return _reasons(launch) + render_docker_run(command_of(launch, name=name)) + "\n"


def compose(launch: Launch, *, name: str = "") -> str:
    """A compose file with one service, with the reasons as comments above."""
    return _reasons(launch) + render_compose(command_of(launch, name=name))


def _reasons(launch: Launch) -> str:
    said = "".join(f"# {name}: {why}\n" for name, why in launch.reasons.items())
    for name, value in launch.parameters.items():
        said = f"# {{{{{name}}}}}: {value}\n{said}"
    if remark := docker_options.name_inexact_restart(launch):
        said = f"# --restart: {remark}\n{said}"
    if launch.network == "host":
        said = f"{HOST_STAYS}: this profile means it\n{said}"
    if _names_program(launch):
        said = f"{PROGRAM_NAMED}, as this image’s own is not known\n{said}"
    if placement.parse_gpu_requirement(launch.gpus):
        said = f"# --gpus: {launch.gpus}, whichever those are on the box\n{said}"
    return said


def _format_port(launch: Launch, port: int) -> str:
    address = f"[{launch.host_address}]" if ":" in launch.host_address else launch.host_address
    if listens_beyond_loopback(launch.host_address) and address == "0.0.0.0":  # noqa: S104
        return f"{launch.host_port}:{port}" if launch.host_port else str(port)
    return f"{address}:{launch.host_port or ''}:{port}"


def _gpus(said: str) -> str | int | tuple[str, ...] | None:
    if said == "none":
        return None
    # Docker chooses by number and by index alone.
    if which := placement.parse_gpu_requirement(said):
        return which.count
    return "all" if said == "all" else tuple(said.split(","))
