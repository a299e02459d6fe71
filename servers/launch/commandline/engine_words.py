"""The engine inside a command line: behind wrappers, `bash -c`, and `python -m`.

vLLM spreads over boxes with Ray where it is told to: its server runs beside the cluster's head, and
the other boxes run nothing but `ray start --address=HEAD:6379 --block`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from servers.launch.commandline.export import HF_CACHE
from servers.launch.commandline.shell import Lexer
from servers.launch.commandline.tokens import EngineKey, LaunchCommand, Operator, ShellError, Word
from servers.launch.commandline.variables import Scope, Value
from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import Launch

_SHELLS = ("bash", "sh", "zsh", "dash", "ash")
_PYTHON = re.compile(r"python(\d(\.\d+)?)?(\.exe)?\Z")
_MODULES: dict[str, EngineKey] = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "sglang.launch_server": "sglang",
    "sglang.cli.main": "sglang",
}
_SCRIPTS: dict[str, EngineKey] = {
    "vllm/entrypoints/openai/api_server.py": "vllm",
    "vllm/entrypoints/api_server.py": "vllm",
    "sglang/launch_server.py": "sglang",
}
_IMAGES: tuple[tuple[str, EngineKey], ...] = (
    (r"sglang|sgl-dev|sgl-workspace", "sglang"),
    (r"vllm", "vllm"),
    (r"llama[._-]?cpp|llama-server", "llamacpp"),
)
# Programs that start another one: their options that take a value, and how many words of
# their own stand before it.
_WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -r -t -U --user --group --host --prompt", 0),
    "doas": ("-u -C", 0),
    "nohup": ("", 0),
    "time": ("-f -o --format --output", 0),
    "exec": ("-a", 0),
    "command": ("", 0),
    "env": ("-u -C -S --unset --chdir", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n --class --classdata", 0),
    "chrt": ("", 1),
    "setsid": ("", 0),
    "stdbuf": ("-i -o -e", 0),
    "unbuffer": ("", 0),
    "numactl": (
        "-N -m -C -l -i -p --cpunodebind --membind --physcpubind --interleave --preferred",
        0,
    ),
    "taskset": ("", 1),
    "timeout": ("-s -k --signal --kill-after", 1),
    "docker exec": (
        "-e -u -w --env --env-file --user --workdir --detach-keys",
        1,
    ),
    "tini": ("-p -e", 0),
    "dumb-init": ("", 0),
    "systemd-run": ("-u -p --unit --property --slice --uid --gid", 0),
    "uvx": ("-p --python --with --from --index-url --extra-index-url --index --torch-backend", 0),
}
_RUNNERS: dict[str, str] = {
    "uv": "-p --python --with --with-editable --with-requirements --extra --group --package "
    "--project --directory --env-file --index-url --extra-index-url --index --torch-backend "
    "--from --prerelease --index-strategy",
    "poetry": "-C --directory -P --project",
    "pipenv": "",
    "pdm": "-p --project",
    "rye": "",
    "hatch": "-e --env",
    "pixi": "-e --environment --manifest-path",
    "conda": "-n -p --name --prefix",
    "mamba": "-n -p --name --prefix",
    "micromamba": "-n -p --name --prefix",
}
_ASKED = re.compile(r"(?:\$\(|`)(?:which|command -v)\s+([\w-]+)[)`]\Z")  # $(which vllm)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


def program(word: str) -> str:
    """A program's name without the folder in front."""
    return re.split(r"[/\\]", word)[-1]


def wrappers(words: Sequence[str]) -> int:
    """How many words stand before the program that does the work: NAME=value, sudo, nohup …"""
    at = 0
    while at < len(words):
        name = program(words[at])
        if _ASSIGNMENT.match(words[at]):
            at += 1
        elif name in _WRAPPERS:
            values, own = _WRAPPERS[name]
            at = _after_options(words, at + 1, values.split()) + own
        elif name in ("docker", "podman", "nerdctl") and list(words[at + 1 : at + 2]) == ["exec"]:
            values, own = _WRAPPERS["docker exec"]
            at = _after_options(words, at + 2, values.split()) + own
        elif name in _RUNNERS and (behind := _behind_runner(words, at)) is not None:
            at = behind
        else:
            break
    return min(at, len(words))


def _behind_runner(words: Sequence[str], at: int) -> int | None:
    """Where the program stands that `uv run`, `conda run` … start; None for `uv pip` and such."""
    values = _RUNNERS[program(words[at])].split()
    verb = _after_options(words, at + 1, values)
    if list(words[verb : verb + 2]) == ["tool", "run"]:
        verb += 1
    if list(words[verb : verb + 1]) != ["run"]:
        return None
    return _after_options(words, verb + 1, values)


def _after_options(words: Sequence[str], at: int, with_value: Sequence[str]) -> int:
    while at < len(words) and words[at].startswith("-") and len(words[at]) > 1:
        if words[at] == "--":
            return at + 1
        at += 2 if words[at] in with_value else 1
    return at


def engine_start(words: Sequence[str]) -> tuple[EngineKey, int] | None:
    """The engine that these words start, and how many of them are its program."""
    if not words:
        return None
    asked = _ASKED.match(words[0])
    # uvx takes a version behind the name: vllm@latest.
    name = (asked[1] if asked else program(words[0]).removesuffix(".exe")).partition("@")[0]
    if list(words[1:2]) == ["serve"] and name in ("vllm", "sglang"):
        return ("vllm" if name == "vllm" else "sglang"), 2
    if name == "llama-server":
        return "llamacpp", 1
    if _PYTHON.match(program(words[0])) or words[0].startswith("$"):
        return _python_start(words)
    return None


def _python_start(words: Sequence[str]) -> tuple[EngineKey, int] | None:
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-m":
        at += 2 if words[at] in ("-W", "-X") else 1
    if list(words[at : at + 1]) == ["-m"] and at + 1 < len(words):
        engine = _MODULES.get(words[at + 1])
        is_cli = words[at + 1].endswith(".cli.main")
        return (engine, at + 2 + is_cli) if engine else None
    script = words[at] if at < len(words) else ""
    for path, engine in _SCRIPTS.items():
        if script.endswith(path):
            return engine, at + 1
    return None


def is_shell(word: str) -> bool:
    return program(word) in _SHELLS


def shell_script(words: Sequence[str]) -> str | None:
    """The text of `bash -c "text"`, `sh -lc "text"`; None if these words are no such thing."""
    if not words or not is_shell(words[0]):
        return None
    for at, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", word):
            rest = [each for each in words[at + 1 :] if not re.fullmatch(r"-[a-z]+", each)]
            return rest[0] if rest else None
        if not word.startswith(("-", "+")) and words[at - 1] not in ("-o", "+o"):
            return None
    return None


def find(words: Sequence[str]) -> tuple[EngineKey, tuple[str, ...]] | None:
    """The engine that an argv starts, however deep, and the words that the engine gets."""
    words = words[wrappers(words) :]
    started = engine_start(words)
    if started is not None:
        engine, own = started
        return engine, tuple(words[own:])
    script = shell_script(words)
    return None if script is None else _find_in_script(script)


def _find_in_script(script: str) -> tuple[EngineKey, tuple[str, ...]] | None:
    scope = Scope()
    for line in simple_commands(script):
        words = [argument.text for argument in scope.arguments(line)]
        found = find(words)
        if found is not None:
            return found
    return None


def simple_commands(script: str) -> list[list[Word]]:
    """The commands of a script, cut at ; && | and line ends. Empty if it is no script."""
    found: list[list[Word]] = []
    lexer = Lexer(script)
    at = 0
    while at < len(script):
        try:
            tokens, at = lexer.line(at)
        except ShellError:
            return []
        command: list[Word] = []
        for token in tokens:
            if isinstance(token, Word):
                command.append(token)
            elif isinstance(token, Operator):
                found.append(command)
                command = []
        found.append(command)
    return [command for command in found if command]


def engine_of(
    *, image: str | None, entrypoint: str | tuple[str, ...] | None, command: Sequence[str]
) -> EngineKey | None:
    """The engine that a container runs: as its command says, else as its image is called."""
    found = find([*_words(entrypoint), *command]) or find(command)
    if found is not None:
        return found[0]
    if image and "tritonserver" not in image:
        for pattern, engine in _IMAGES:
            if re.search(pattern, image, re.IGNORECASE):
                return engine
    return None


def engine_words(command: LaunchCommand) -> tuple[str, ...] | None:
    """What the engine itself gets to read: without wrappers, `bash -c`, "vllm serve".

    None where no engine is started: a container with just a shell, or something else. Nothing at
    all where variables alone tell a llama.cpp what to do.
    """
    words = [*_words(command.entrypoint), *command.command]
    found = find(words) or find(command.command)
    if found is not None:
        return found[1]
    if command.engine is None or command.entrypoint:
        return None
    # The image's own entrypoint is the engine: vllm/vllm-openai --model X.
    if command.engine == "vllm":
        own = words[1:] if words[:1] == ["serve"] else words
        return tuple(own) if own and _is_checkpoint(own) else None
    if command.engine == "llamacpp":
        own = words[1:] if words[:1] in (["--server"], ["-s"]) else words
        if not own:
            told = any(name.startswith("LLAMA_ARG_") for name in command.env)
            return () if told or command.env_file else None
        return tuple(own) if own[0].startswith("-") else None
    return None


def _is_checkpoint(words: Sequence[str]) -> bool:
    """Whether vLLM's words begin with its checkpoint or flags, rather than with a program."""
    first = words[0]
    if first.startswith("-") or "/" in first:
        return True
    is_program = first in _SHELLS or _PYTHON.match(first) is not None
    return not is_program and len(words) > 1 and words[1].startswith("--")


def _words(entrypoint: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if isinstance(entrypoint, str):
        return (entrypoint,) if entrypoint else ()
    return entrypoint or ()


PORT = "6379"  # unless it is told another
_LOCAL = {"", "127.0.0.1", "localhost", "0.0.0.0", "::1"}  # noqa: S104 - says nothing of who


@dataclass(frozen=True, kw_only=True)
class RayStart:
    is_head: bool
    host: str  # of the head; "" of a head that names no address of its own
    port: str


def ray_start(words: Sequence[str], env: Mapping[str, str] | None = None) -> RayStart | None:
    """The first one that these words start, behind wrappers and shells; None for none.

    Rule: `ray start --head --port P --node-ip-address A`, or `ray start --address A:P`. Which
    cluster "auto" is, its words do not say.
    """
    for command in _commands(words, env or {}):
        if [program(command[0]), *command[1:2]] != ["ray", "start"]:
            continue
        flags = tuple(command[2:])
        if flag_value(flags, "--head") is not None:
            host = flag_value(flags, "--node-ip-address") or ""
            return RayStart(is_head=True, host=host, port=flag_value(flags, "--port") or PORT)
        host, _colon, port = (flag_value(flags, "--address") or "").rpartition(":")
        if host and port.isascii() and port.isdigit():
            return RayStart(is_head=False, host=host, port=port)
    return None


def _commands(words: Sequence[str], env: Mapping[str, str]) -> Iterator[Sequence[str]]:
    words = words[wrappers(words) :]
    # A script of a venv stands behind its interpreter.
    if len(words) > 1 and program(words[0]).startswith("python"):
        words = words[1:]
    script = shell_script(words)
    if script is None:
        yield from [words] if words else []
        return
    scope = Scope(values={name: Value(text=text) for name, text in env.items()})
    for command in simple_commands(script):
        inner = [argument.text for argument in scope.arguments(command)]
        yield from _commands(inner, env) if inner else ()


def uses_ray(launch: Launch, words: Sequence[str]) -> bool:
    """Whether an engine's ranks are Ray's. `words` are all of its container's or process's."""
    return launch.engine == "vllm" and ("ray" in _backends(launch) or _head(words) is not None)


def works_for(worker: str, launch: Launch, words: Sequence[str], box: Collection[str]) -> bool:
    """Whether what joined Ray's head at "10.0.0.1:6379" works for this engine, which uses Ray.

    Rule: the head runs beside the engine, at an address of its box, or at the one that its words
    or VLLM_HOST_IP name; at Ray's usual port unless its words say another.
    """
    host, _colon, port = worker.rpartition(":")
    head = _head(words)
    own = {*box, launch.env.get("VLLM_HOST_IP", ""), head.host if head else ""} - _LOCAL
    return host in own and (head is None or port == head.port)


def _backends(launch: Launch) -> tuple[str | None, ...]:
    names = ("--distributed-executor-backend", "--data-parallel-backend", "-dpb")
    return tuple(flag_value(launch.flags, name) for name in names)


def _head(words: Sequence[str]) -> RayStart | None:
    found = ray_start(words)
    return found if found is not None and found.is_head else None


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
    script = shell_script(argv)
    if script is None or len(simple_commands(script)) < 2:
        return ()
    return (*argv[: argv.index(script)], script)


def read_port(text: str) -> tuple[str, int, int] | None:
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
