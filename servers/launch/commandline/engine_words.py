"""The engine inside a command line, behind wrappers, `bash -c` and `python -m`, and its own words."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from servers.launch.commandline.shell import Lexer
from servers.launch.commandline.tokens import EngineKey, LaunchCommand, Operator, ShellError, Word
from servers.launch.commandline.variables import Scope
from servers.launch.engines.engine import flag_value
from servers.launch.tables import freeze, read_table

_SHELLS = ("bash", "sh", "zsh", "dash", "ash")
_PYTHON = re.compile(r"python(\d(\.\d+)?)?(\.exe)?\Z")
_TABLE = read_table(__file__)
_DOCKER = ("docker", "podman", "nerdctl")
# Those that change how their program runs, so that it is no matter whether they stand there.
_CHANGING = ("numactl", "taskset", "nice", "ionice", "chrt", "timeout")
_USUAL = ("/app/llama-server", "/usr/bin/python3")
_CLUSTER = "launch-cluster.sh"
_OF_SYSTEM = re.compile(r"/(?:usr/)?s?bin/")
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
        elif at and _ASSIGNMENT.match(words[at - 1]) and re.fullmatch(r"-[A-Z]", words[at]):
            at += 1  # of sudo, behind what it sets
        elif name in _TABLE["wrappers"]:
            at = _behind_wrapper(words, at + 1, name)
        elif name in _DOCKER and list(words[at + 1 : at + 2]) == ["exec"]:
            at = _behind_wrapper(words, at + 2, "docker exec")
        elif name in _TABLE["runners"] and (behind := _behind_runner(words, at)) is not None:
            at = behind
        else:
            break
    return min(at, len(words))


def _behind_wrapper(words: Sequence[str], at: int, name: str) -> int:
    said = _TABLE["wrappers"][name]
    own: int = said.get("own", 0)
    return _after_options(words, at, said.get("values", "").split()) + own


def _behind_runner(words: Sequence[str], at: int) -> int | None:
    """Where the program stands that `uv run`, `conda run` … start; None for `uv pip` and such."""
    values = _TABLE["runners"][program(words[at])].split()
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


def find_container(before: Sequence[str]) -> str:
    """The container of `docker exec` among the words before a program; "" where there is none."""
    for at in range(len(before) - 2):
        if program(before[at]) in _DOCKER and before[at + 1] == "exec":
            values = _TABLE["wrappers"]["docker exec"]["values"].split()
            return "".join(before[_after_options(before, at + 2, values) :][:1])
    return ""


def engine_start(words: Sequence[str]) -> tuple[EngineKey, int] | None:
    """The engine that these words start, and how many of them are its program."""
    if not words:
        return None
    asked = _ASKED.match(words[0])
    # uvx takes a version behind the name: vllm@latest.
    name = (asked[1] if asked else program(words[0]).removesuffix(".exe")).partition("@")[0]
    if list(words[1:2]) == ["serve"] and name in ("vllm", "sglang"):
        return ("vllm" if name == "vllm" else "sglang"), 2
    if name == "llama-server" or (name == "server" and "llama.cpp" in words[0]):
        return "llamacpp", 1
    if _PYTHON.match(program(words[0])) or words[0].startswith("$"):
        return _python_start(words)
    return None


def _python_start(words: Sequence[str]) -> tuple[EngineKey, int] | None:
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-m":
        at += 2 if words[at] in ("-W", "-X") else 1
    if list(words[at : at + 1]) == ["-m"] and at + 1 < len(words):
        engine = _TABLE["modules"].get(words[at + 1])
        is_cli = words[at + 1].endswith(".cli.main")
        return (engine, at + 2 + is_cli) if engine else None
    script = words[at] if at < len(words) else ""
    for path, engine in _TABLE["scripts"].items():
        if script.endswith(path):
            return engine, at + 1
    return None


def is_shell(word: str) -> bool:
    return program(word) in _SHELLS


def list_words(command: LaunchCommand) -> tuple[str, ...]:
    """Entrypoint and command of a container, or all words of a command without one."""
    return (*_words(command.entrypoint), *command.command)


def find_entrypoint(command: LaunchCommand) -> tuple[str, ...]:
    """The program that a profile names as the container's entrypoint: what the paste says of it, and
    what stands before the engine's own words; () where the image's is left as it is.

    A script that does more than start the engine is kept as a whole, a shell that does no more is
    none.
    """
    script = kept_script(command)
    if script or command.kind == "engine_command":
        return script
    argv = list_words(command)
    own = find(argv) or find(command.command)
    if own is None:
        return _words(command.entrypoint)
    is_shell_alone = shell_script(argv[wrappers(argv) :]) is not None
    start = find_program(argv, _is_start) or ()
    before = tuple(start[: len(start) - len(own[1])]) if is_shell_alone else ()
    before = before or argv[: len(argv) - len(own[1])]
    is_said = command.entrypoint is not None and not is_shell_alone
    is_path = bool(start) and "/" in start[0] and start[0][0] != "$" and start[0] not in _USUAL
    return before if is_said or is_path or _changes(before) else ()


def _is_start(words: Sequence[str]) -> bool:
    return engine_start(words) is not None


def _changes(words: Sequence[str]) -> bool:
    """Whether what stands before a program changes something: numactl, uv run, NAME=value."""
    return any(
        program(word) in (*_CHANGING, *_TABLE["runners"]) or _ASSIGNMENT.match(word)
        for word in words[: wrappers(words)]
    )


def name_changing(words: Sequence[str]) -> tuple[str, ...]:
    """The wrappers in front that change how their program runs, with their options; and packages
    that are installed for it."""
    last = wrappers(words)
    found: list[str] = []
    for at in range(last):
        if program(words[at]) in _CHANGING:
            others = (n for n in range(at + 1, last) if program(words[n]) in _TABLE["wrappers"])
            stop = next(others, last)
            found.append(" ".join(words[at:stop]))
        elif words[at] == "--with" and at + 1 < last and words[at + 1] not in ("vllm", "sglang"):
            found.append(f"--with {words[at + 1]}")
    return tuple(found)


def find_hosts(words: Sequence[str]) -> tuple[str, ...] | None:
    """The boxes on which launch-cluster.sh starts one engine; () where it looks for them itself.

    None for anything else, and for one box. Source: eugr/spark-vllm-docker.
    """
    start = next((n for n, word in enumerate(words[:3]) if program(word) == _CLUSTER), None)
    if start is None:
        return None
    own = list(words[start + 1 :])
    own = own[: own.index("exec")] if "exec" in own else own
    said = flag_value(tuple(own), "-n", "--nodes") or ""
    hosts = tuple(each for each in said.split(",") if each)
    return None if "--solo" in own or len(hosts) == 1 else hosts


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
    found = find_program(words, _is_start)
    started = engine_start(found or ())
    return None if started is None or found is None else (started[0], tuple(found[started[1] :]))


def find_program(
    words: Sequence[str], is_it: Callable[[Sequence[str]], bool]
) -> Sequence[str] | None:
    """The words of the first program of a kind that an argv starts, however deep."""
    words = words[wrappers(words) :]
    if is_it(words):
        return words
    script = shell_script(words)
    if script is None:
        return None
    scope = Scope()
    for line in simple_commands(script):
        inner = [argument.text for argument in scope.arguments(line)]
        if (found := find_program(inner, is_it)) is not None:
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
        images: list[tuple[str, EngineKey]] = _TABLE["images"]
        for pattern, engine in images:
            if re.search(pattern, image, re.IGNORECASE):
                return engine
    return None


def engine_words(command: LaunchCommand) -> tuple[str, ...] | None:
    """What the engine itself gets to read: without wrappers, `bash -c`, "vllm serve".

    None where no engine is started: a container with just a shell, or something else. Nothing at
    all where variables alone tell a llama.cpp what to do.
    """
    words = list(list_words(command))
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
    # So does an image of somebody's own, or one that a profile names the program for.
    if command.engine == "sglang" and words and words[0].startswith("--"):
        return tuple(words) if any(w.startswith("--model") for w in words) else None
    return None


def _is_checkpoint(words: Sequence[str]) -> bool:
    """Whether vLLM's words begin with its checkpoint or flags, rather than with a program."""
    first = words[0]
    if is_program(first):
        return False
    return first.startswith("-") or "/" in first or (len(words) > 1 and words[1].startswith("--"))


def is_program(word: str) -> bool:
    """Whether a word is a shell, a script or a program of the system, which no checkpoint is."""
    is_there = is_shell(word) or _PYTHON.match(program(word)) is not None
    return is_there or word.endswith((".sh", ".py")) or _OF_SYSTEM.match(word) is not None


def _words(entrypoint: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if isinstance(entrypoint, str):
        return (entrypoint,) if entrypoint else ()
    return entrypoint or ()


def kept_script(command: LaunchCommand) -> tuple[str, ...]:
    """The shell and its script, where the script does more than start the engine, or starts it in
    a way of its own."""
    argv = list_words(command)
    script = shell_script(argv)
    if script is None:
        return ()
    commands = simple_commands(script)
    if len(commands) < 2:
        arguments = [argument for each in commands for argument in Scope().arguments(each)]
        # What only the container's own shell can fill in. The rest is told as without a value.
        inside = {name for argument in arguments for name in argument.unresolved}
        needs_shell = bool(inside - set(command.unresolved))
        if not needs_shell and not _changes([argument.text for argument in arguments]):
            return ()
    return (*argv[: argv.index(script)], script)


_USED = re.compile(r"(?<!\\)\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_SET = re.compile(r"(?:^|[\s;&|({])(?:([A-Za-z_]\w*)\+?=|(?:for|read(?: -\w+)*)\s+([A-Za-z_]\w*))")


def list_unset(command: LaunchCommand) -> list[str]:
    """Variables of a kept script that neither it nor the command sets, in their order."""
    script = kept_script(command)[-1]
    quoted = re.sub(r"'[^']*'", "", script)  # no variables to the shell
    is_set = {name for found in _SET.findall(script) for name in found}
    is_set.update(_TABLE["always_set"].split())
    used = dict.fromkeys(name for found in _USED.findall(quoted) for name in found if name)
    return [name for name in used if name not in is_set and not command.env.get(name)]


@dataclass(frozen=True, kw_only=True)
class OtherServer:
    title: str
    words: tuple[str, ...] = ()  # its command begins with them, behind wrappers and shells
    port: int = 0  # 0: not known here
    ready_path: str = ""  # answers 200 when it serves; "": not known here


# Without a container, at the beginning of a line.
OTHER_SERVER = re.compile(
    r"(?m)^[^#\n\"']*?(?<![\w/.-])(?P<name>trtllm-serve|lmdeploy serve|text-generation-launcher"
    r"|text-embeddings-router|aphrodite run|mlx_lm\.server|mistralrs(?:-server)?|koboldcpp"
    r"|python3? -m llama_cpp\.server|ollama (?:serve|run))\s"
)
_SERVERS = tuple(OtherServer(**said) for said in freeze(_TABLE["other_servers"]["commands"]))
_IMAGES = {name: OtherServer(**said) for name, said in _TABLE["other_servers"]["images"].items()}


def find_server(words: Sequence[str], image: str = "") -> OtherServer | None:
    """The one that an argv starts, however deep, or an image by itself; None for anything else."""
    found = find_program(words, _is_server)
    if found is not None:
        return _match(found)
    if words and is_program(words[0]):
        return None
    return next((server for name, server in _IMAGES.items() if name in image), None)


def _is_server(words: Sequence[str]) -> bool:
    return _match(words) is not None


def _match(words: Sequence[str]) -> OtherServer | None:
    start = (program(words[0]), *words[1:]) if words else ()
    behind = start[1:] if start and start[0].startswith("python") else start
    for each in _SERVERS:
        if each.words in (start[: len(each.words)], behind[: len(each.words)]):
            return each
    return None


# vLLM's options that take several words, so that the last one is no checkpoint.
_SEVERAL = ("--served-model-name", "--lora-modules", "--allowed-origins", "--middleware")


@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """None is what the words do not say; `flags` is the rest, in its order."""

    engine: EngineKey
    checkpoint: str | None = None
    served_name: str | None = None
    host: str | None = None
    port: str | None = None
    flags: tuple[str, ...] = ()
    # Variables of these fields, whether their flags outrank them or not.
    variables: frozenset[str] = frozenset()

    @property
    def port_number(self) -> int:
        """0 where no port is told, or what is told is none."""
        told = self.port or ""
        is_port = told.isascii() and told.isdigit() and len(told) < 6 and int(told) < 65536
        return int(told) if is_port else 0


def split_engine_words(
    engine: EngineKey, words: tuple[str, ...], env: Mapping[str, str | None] | None = None
) -> EngineFlags:
    """Take out what a profile keeps in fields of its own, also where variables say it.

    Several served names stay among the flags: a profile has room for one.
    """
    said = _split(engine, words)
    of_engine = _TABLE["variables"].get(engine, {})
    told = {name: value for name in of_engine if (value := (env or {}).get(name))}
    fields: dict[str, Any] = {of_engine[name]: value for name, value in told.items()}
    missing = {name: value for name, value in fields.items() if getattr(said, name) is None}
    return replace(said, **missing, variables=frozenset(told))


def _split(engine: EngineKey, words: tuple[str, ...]) -> EngineFlags:
    rest, checkpoint = _positional(engine, words)
    rest, named = _take_flag(rest, tuple(_TABLE["checkpoint"][engine]))
    rest, served_name = _take_flag(rest, tuple(_TABLE["served_name"][engine]))
    rest, host = _take_flag(rest, ("--host",), most=1)
    rest, port = _take_flag(rest, ("--port",), most=1)
    return EngineFlags(
        engine=engine,
        checkpoint=checkpoint or named,
        served_name=served_name,
        host=host,
        port=port,
        flags=rest,
    )


def _positional(engine: EngineKey, words: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """A checkpoint without a flag: the first word, or with vLLM a last one that is no value."""
    if engine == "llamacpp" or not words:
        return words, None
    if not words[0].startswith("-"):
        return words[1:], words[0]
    if engine != "vllm":
        return words, None
    last = len(words) - 1
    is_beside_value = last >= 2 and not any(w.startswith("-") for w in words[last - 1 :])
    if is_beside_value and words[last - 2] not in _SEVERAL:
        return words[:last], words[last]
    return words, None


def _take_flag(
    words: tuple[str, ...], names: tuple[str, ...], *, most: int | None = None
) -> tuple[tuple[str, ...], str | None]:
    """The words without the flag of these names that has one value; the last one counts.

    `most`: what follows so many values are words of their own. None: all values are the flag's.
    """
    found: str | None = None
    rest: list[str] = []
    at = 0
    while at < len(words):
        flag, equals, value = words[at].partition("=")
        if not _is(flag, names):
            rest.append(words[at])
            at += 1
            continue
        values = [value] if equals else _list_values(words, at + 1)[:most]
        at += 1 if equals else 1 + len(values)
        if len(values) == 1:
            found = values[0]
        else:
            rest += [flag, *values]
    return tuple(rest), found


def _is(flag: str, names: tuple[str, ...]) -> bool:
    return flag in names or (flag.startswith("--") and re.sub("_", "-", flag) in names)


def _list_values(words: tuple[str, ...], at: int) -> list[str]:
    stop = at
    while stop < len(words) and not words[stop].startswith("-"):
        stop += 1
    return list(words[at:stop])
