"""The engine inside a command line: behind wrappers, `bash -c`, and `python -m`."""

import re
from collections.abc import Callable, Sequence

from servers.launch.commandline.shell import Lexer
from servers.launch.commandline.tokens import EngineKey, LaunchCommand, Operator, ShellError, Word
from servers.launch.commandline.variables import Scope
from servers.launch.engines.engine import flag_value

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
_DOCKER = ("docker", "podman", "nerdctl")
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
        elif name in _WRAPPERS:
            values, own = _WRAPPERS[name]
            at = _after_options(words, at + 1, values.split()) + own
        elif name in _DOCKER and list(words[at + 1 : at + 2]) == ["exec"]:
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


def find_container(before: Sequence[str]) -> str:
    """The container of `docker exec` among the words before a program; "" where there is none."""
    for at in range(len(before) - 2):
        if program(before[at]) in _DOCKER and before[at + 1] == "exec":
            values, _own = _WRAPPERS["docker exec"]
            return "".join(before[_after_options(before, at + 2, values.split()) :][:1])
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
        program(word) in (*_CHANGING, *_RUNNERS) or _ASSIGNMENT.match(word)
        for word in words[: wrappers(words)]
    )


def name_changing(words: Sequence[str]) -> tuple[str, ...]:
    """The wrappers in front that change how their program runs, with their options; and packages
    that are installed for it."""
    last = wrappers(words)
    found: list[str] = []
    for at in range(last):
        if program(words[at]) in _CHANGING:
            stop = next((n for n in range(at + 1, last) if program(words[n]) in _WRAPPERS), last)
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
        for pattern, engine in _IMAGES:
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


# Of a shell's own, and what every container has.
_ALWAYS_SET = frozenset(
    [
        "HOME",
        "HOSTNAME",
        "IFS",
        "LANG",
        "LINENO",
        "OLDPWD",
        "PATH",
        "PPID",
        "PWD",
        "RANDOM",
        "SECONDS",
        "SHELL",
        "TERM",
        "UID",
        "USER",
    ]
)
_USED = re.compile(r"(?<!\\)\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_SET = re.compile(r"(?:^|[\s;&|({])(?:([A-Za-z_]\w*)\+?=|(?:for|read(?: -\w+)*)\s+([A-Za-z_]\w*))")


def list_unset(command: LaunchCommand) -> list[str]:
    """Variables of a kept script that neither it nor the command sets, in their order."""
    script = kept_script(command)[-1]
    quoted = re.sub(r"'[^']*'", "", script)  # no variables to the shell
    is_set = {name for found in _SET.findall(script) for name in found}
    used = dict.fromkeys(name for found in _USED.findall(quoted) for name in found if name)
    return [name for name in used if name not in is_set | _ALWAYS_SET and not command.env.get(name)]
