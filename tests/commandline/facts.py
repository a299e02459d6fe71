"""Facts of a launch, read from its words without the importer's own code: what a paste says
beside what an export says.

Small on purpose: it knows the options of docker, a service of compose and three engines, and is
told everything else as it stands.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

type Facts = dict[str, str]

_SWITCHES = {
    "detach", "rm", "interactive", "tty", "privileged", "init", "publish-all", "read-only",
    "oom-kill-disable", "no-healthcheck", "replace", "quiet", "use-api-socket",
}  # fmt: skip
_SHORT = {
    "d": "detach", "i": "interactive", "t": "tty", "e": "env", "v": "volume", "p": "publish",
    "h": "hostname", "l": "label", "m": "memory", "u": "user", "w": "workdir", "a": "attach",
    "c": "cpu-shares", "P": "publish-all", "q": "quiet",
}  # fmt: skip
_DEFAULT_PORT = {"vllm": "8000", "sglang": "30000", "llamacpp": "8080"}
_DEFAULT_HOST = {"vllm": "0.0.0.0", "sglang": "127.0.0.1", "llamacpp": "127.0.0.1"}  # noqa: S104
_MODEL = {
    "vllm": ("--model",),
    "sglang": ("--model-path", "--model"),
    "llamacpp": ("-m", "--model", "-hf", "-hfr", "--hf-repo"),
}
_NAME = {
    "vllm": ("--served-model-name",),
    "sglang": ("--served-model-name",),
    "llamacpp": ("-a", "--alias"),
}
_MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "vllm.entrypoints.api_server": "vllm",
    "vllm.entrypoints.cli.main": "vllm",
    "sglang.launch_server": "sglang",
}
# They start the program in a place of its own, which a container is anyway.
_RUNNERS = {
    "uv", "uvx", "conda", "mamba", "micromamba", "poetry", "pixi", "srun", "screen", "tmux", "flock",
    "nsys", "apptainer", "singularity", "docker", "kubectl", "pm2", "ssh", "wsl", "systemd-run", "tini", "dumb-init", "ray",
}  # fmt: skip
_CHANGING = {"numactl", "taskset", "nice", "ionice", "chrt", "timeout"}
_QUIET = {"sudo", "exec", "nohup", "time", "env", "command", "setsid"}
_ANSI = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_DEFAULT = re.compile(r"\$\{(\w+):?-([^{}]*)\}")
_CACHE = "~/.cache/huggingface:/root/.cache/huggingface"
_TOOLS = ("docker", "podman", "nerdctl")
# What compose calls otherwise than docker's options.
_COMPOSE = {
    "network_mode": "network", "container_name": "name", "mem_limit": "memory",
    "extra_hosts": "add-host", "working_dir": "workdir", "devices": "device",
    "healthcheck": "health-cmd", "cpuset": "cpuset-cpus", "env_file": "env-file", "pid": "pid",
}  # fmt: skip
_NO_FACTS = {"detach", "rm", "interactive", "tty", "name", "stdin-open", "init"}


@dataclass(frozen=True, kw_only=True)
class Words:
    """A launch as it was typed, before it is looked at."""

    options: list[tuple[str, str]]  # of the container; the names are docker's long ones
    words: list[str]  # entrypoint and command, or all of a command without a container
    image: str = ""


def split_words(text: str) -> list[str]:
    """As a shell does; raises ValueError for what is never closed."""
    text = _ANSI.sub(lambda m: shlex.quote(m[1].encode().decode("unicode_escape")), text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def read_docker(words: Sequence[str]) -> Words:
    """Of `docker run …`; raises ValueError where nothing follows the options."""
    at = list(words).index("run") + 1
    options: list[tuple[str, str]] = []
    while at < len(words) and words[at].startswith("-"):
        word, at = words[at], at + 1
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in _SWITCHES:
                value, at = words[at], at + 1
            options.append((name, value))
            continue
        letters = word[1:]
        while letters:
            name, letters = _SHORT.get(letters[0], letters[0]), letters[1:]
            if name in _SWITCHES:
                options.append((name, ""))
                continue
            value, letters = letters.removeprefix("="), ""
            if not value:
                value, at = words[at], at + 1
            options.append((name, value))
    if at >= len(words):
        raise ValueError("no image")
    first = [value for name, value in options if name == "entrypoint" and value]
    rest = [each for each in options if each[0] != "entrypoint"]
    return Words(options=rest, words=[*first[-1:], *words[at + 1 :]], image=words[at])


def read_compose(text: str) -> list[Words]:
    """Of every service of a file; raises ValueError where it is none."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    if not isinstance(document, dict):
        raise ValueError("no services")
    services = document.get("services")
    if not isinstance(services, dict):
        is_one = isinstance(document.get("image"), str)
        services = {"": document} if is_one else document
        document = {}
    return [_service(each, document) for each in services.values()]


def _service(service: dict[str, Any], document: dict[str, Any]) -> Words:
    options: list[tuple[str, str]] = []
    words = [*_argv(service.get("entrypoint")), *_argv(service.get("command"))]
    for key, value in service.items():
        name = _COMPOSE.get(key, key.replace("_", "-"))
        if key in ("image", "entrypoint", "command") or key.startswith("x-") or value is None:
            continue
        if key == "environment":
            options += [("env", each) for each in _pairs(value)]
        elif key == "volumes":
            options += [("volume", _volume(each, document)) for each in value]
        elif key == "ports":
            options += [("publish", _plain(_port(each))) for each in value]
        elif key == "networks":
            options += [("network", _network(each, document)) for each in value]
        elif key == "ulimits":
            options += [("ulimit", f"{n}={_limit(each)}") for n, each in value.items()]
        elif key == "deploy":
            options += _deployed(value)
        elif key == "gpus":
            options += [("gpus", _request(value[0]) if isinstance(value, list) else str(value))]
        elif key in ("depends_on", "healthcheck", "logging", "build", "extends", "labels", "tmpfs"):
            options.append((name if key != "depends_on" else key, "…"))
        elif isinstance(value, bool):
            options += [(name, "")] if value else []
        elif isinstance(value, list):
            options += [(name.removesuffix("s") if False else name, _plain(str(v))) for v in value]
        else:
            options.append((name, _plain(str(value))))
    return Words(options=options, words=words, image=_plain(str(service.get("image", ""))))


def _argv(said: Any) -> list[str]:
    if said is None:
        return []
    if isinstance(said, list):
        return [_plain(_text(each)) for each in said]
    if re.search(r"(?:^|\s)#\s", str(said)):
        raise ValueError("a comment inside a text")
    return [_plain(each) for each in shlex.split(re.sub(r"\\\s*\n", " ", str(said)))]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(text: str) -> str:
    return text.replace("$$", "$")


def _pairs(said: Any) -> list[str]:
    if isinstance(said, list):
        return [_plain(str(each)) for each in said]
    return [n if v is None else f"{n}={_plain(_text(v))}" for n, v in said.items()]


def _volume(said: Any, document: Mapping[str, Any]) -> str:
    if isinstance(said, dict):
        mode = ":ro" if said.get("read_only") else ""
        said = f"{said.get('source', '')}:{said.get('target')}{mode}"
    source, colon, rest = _plain(str(said)).partition(":")
    return _real_name(source, "volumes", document) + colon + rest


def _network(name: str, document: Mapping[str, Any]) -> str:
    return _real_name(name, "networks", document)


def _real_name(name: str, kind: str, document: Mapping[str, Any]) -> str:
    """What docker calls it: a project's name stands before it where nothing says otherwise."""
    named = document.get(kind) or {}
    if name not in named:
        return name
    more = named[name] or {}
    external = more.get("external")
    if isinstance(external, dict):
        return str(external.get("name", name))
    if "name" in more or external:
        return str(more.get("name", name))
    project = document.get("name")
    return f"{project}_{name}" if project else f"PROJECT_{name}"


def _port(said: Any) -> str:
    if isinstance(said, dict):
        host = f"{said['host_ip']}:" if "host_ip" in said else ""
        kind = f"/{said['protocol']}" if said.get("protocol", "tcp") != "tcp" else ""
        return f"{host}{said.get('published', '')}:{said['target']}{kind}"
    return str(said)


def _limit(said: Any) -> str:
    return f"{said.get('soft')}:{said.get('hard')}" if isinstance(said, dict) else str(said)


def _deployed(said: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in said.items():
        if key != "resources":
            yield f"deploy.{key}", "…"
            continue
        for kind, each in value.items():
            devices = each.get("devices") or [] if isinstance(each, dict) else []
            if kind == "reservations" and devices:
                yield "gpus", _request(devices[0])
            if kind != "reservations" or set(each) - {"devices"}:
                yield f"deploy.resources.{kind}", "…"


def _request(device: Mapping[str, Any]) -> str:
    if device.get("device_ids"):
        ids = [str(each).removeprefix("nvidia.com/gpu=") for each in device["device_ids"]]
        return "device=" + ",".join(ids)
    return str(device.get("count", "all"))


def read_facts(said: Words, engine: str = "") -> Facts:
    """Everything that it says, by names under which two launches can be compared.

    `engine` is what a person says of an image whose name does not tell.
    """
    found: Facts = {}
    env: dict[str, str] = {}
    published: list[str] = []
    network = "bridge"
    many: dict[str, list[str]] = {}
    for name, value in said.options:
        if name == "env":
            variable, equals, text = value.partition("=")
            env[variable] = text if equals else "(given)"
        elif name in ("volume", "mount"):
            source, target = _mount(value)
            found[f"volume {target}"] = source
        elif name == "publish":
            published.append(value.removesuffix("/tcp"))
        elif name in ("network", "net"):
            if network == "bridge":
                network = value
            else:
                many.setdefault("networks", []).append(value)
        elif name == "gpus":
            found["gpus"] = _gpus(value)
        elif name == "device" and value.startswith("nvidia.com/gpu="):
            more = found.get("gpus")
            given = value.removeprefix("nvidia.com/gpu=")
            found["gpus"] = f"{more},{given}" if more else given
        elif name not in _NO_FACTS:
            many.setdefault(name, []).append(value)
    for name, values in many.items():
        found[f"option {name}"] = " ".join(sorted(map(_option, values)))
    if said.image:
        found["image"] = said.image
        found["network"] = network
    seen = env.get("NVIDIA_VISIBLE_DEVICES", "all")
    if "option runtime" in found or "NVIDIA_VISIBLE_DEVICES" in env or not said.image:
        found.setdefault("gpus", seen if seen not in ("none", "void") else "")
    engine = _read_program(said, engine, env, found)
    found |= {f"env {name}": value for name, value in env.items()}
    _read_listening(found, engine, network if said.image else "host", published)
    return found


def _option(value: str) -> str:
    value = value.removeprefix("CAP_")
    size = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt])(?:i?b)?", value.lower())
    if size:
        return str(int(float(size[1]) * 1024 ** (" kmgt".index(size[2]))))
    soft = re.fullmatch(r"(\w+)=(-?\d+):\2", value)
    return f"{soft[1]}={soft[2]}" if soft else value.replace("seccomp=", "seccomp:")


def _mount(value: str) -> tuple[str, str]:
    if value.startswith("type=") or ",target=" in value or ",dst=" in value:
        parts = dict(each.partition("=")[::2] for each in value.split(","))
        source = parts.get("source", parts.get("src", ""))
        target = parts.get("target", parts.get("dst", parts.get("destination", "")))
        mode = "ro" if {"readonly", "ro"} & set(parts) else ""
        return (_home(f"{source}:{mode}" if mode else source), target.rstrip("/"))
    source, _colon, rest = value.partition(":")
    target, _colon, mode = rest.partition(":")
    modes = ",".join(each for each in mode.split(",") if each not in ("", "z", "Z", "rw"))
    if not target:
        source, target = "", source
    source = _home(source.rstrip("/") or source)
    return (f"{source}:{modes}" if modes else source, target.rstrip("/"))


def _home(path: str) -> str:
    return re.sub(r"^\$(HOME\b|\{HOME\})", "~", path)


def _gpus(value: str) -> str:
    value = value.strip("'\"").replace('"', "")
    value = re.sub(r",?capabilities=.*", "", value)
    if value in ("all", "-1", "device=all"):
        return "all"
    if value.isdecimal():
        return ",".join(map(str, range(int(value))))
    return value.removeprefix("device=")


def _read_program(said: Words, engine: str, env: dict[str, str], found: Facts) -> str:
    """Put what the program says into the facts; the engine, or ""."""
    words = list(said.words)
    script = ""
    while words and re.search(r"(^|/)(ba|z|da)?sh$", words[0]):
        at = next((n for n, w in enumerate(words) if re.fullmatch(r"-\w*c\w*", w)), None)
        if at is None or at + 1 >= len(words):
            break
        script = words[at + 1]
        inner = _commands(script)
        if len(inner) != 1:
            break
        words = inner[0]
        script = ""
    if script:
        found["script"] = " ".join(re.sub(r"(?m)^\s*#.*$", "", script).split())
        return _engine_in(script, env, found)
    wrapper: list[str] = []
    own = _program(words)
    is_run = False
    while words and own is None:
        word = words[0]
        is_run = is_run or word.rpartition("/")[2] in _RUNNERS or word.endswith(".sh")
        if word == "--with" and words[1:2] != ["vllm"]:
            found["option with"] = words[1]
        if is_run:
            words = words[1:]
            own = _program(words)
            continue
        if re.match(r"[A-Za-z_]\w*=", word) and not wrapper:
            name, _equals, value = word.partition("=")
            env[name] = value
        elif wrapper or word.rpartition("/")[2] in _CHANGING:
            wrapper.append(word)
        elif word not in _QUIET and not word.startswith("-"):
            break
        words = words[1:]
        own = _program(words)
    if own is None:
        words = list(said.words)
        engine = _engine_of_image(said.image) or engine
        if (
            engine
            and (words or engine == "llamacpp")
            and words[:1] not in (["trtllm-serve"], ["lmdeploy"])
        ):
            _read_flags(engine, words, env, found)
            return engine
        found["words"] = " ".join(words)
        return ""
    engine, count = own
    if wrapper:
        found["wrapper"] = " ".join(wrapper)
    folder = words[0].rpartition("/")[0]
    if folder and said.image and "$(" not in folder:
        found["program"] = words[0]
    _read_flags(engine, words[count:], env, found)
    return engine


def _engine_in(script: str, env: dict[str, str], found: Facts) -> str:
    """What a script of several commands starts counts as its text; its port is wanted alone."""
    for words in _commands(script):
        while words and _program(words) is None:
            words = words[1:]
        own = _program(words)
        if own is not None:
            inner: Facts = {}
            _read_flags(own[0], words[own[1] :], dict(env), inner)
            found |= {key: inner[key] for key in ("port", "host") if key in inner}
            return own[0]
    return ""


def _commands(script: str) -> list[list[str]]:
    script = re.sub(r"(?:\s\d*>>?\s*(?:&\d|\S+))+\s*$", " ", script)
    script = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*$", "", script))
    lexer = shlex.shlex(script.replace("\n", " ; "), posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if set(word) <= set(";&|"):
                found.append([])
            else:
                found[-1].append(word)
    except ValueError:
        return []
    return [each for each in found if each]


def _program(words: Sequence[str]) -> tuple[str, int] | None:
    if not words:
        return None
    asked = re.fullmatch(r"\$\((?:which|command -v) ([\w-]+)\)", words[0])
    name = asked[1] if asked else re.split(r"[/\\]", words[0])[-1]
    name = name.removesuffix(".exe").partition("@")[0]
    if name in ("vllm", "sglang") and list(words[1:2]) == ["serve"]:
        return name, 2
    if name == "llama-server" or words[0].endswith("llama.cpp/build/bin/server"):
        return "llamacpp", 1
    if re.fullmatch(r"python[\d.]*", name) or words[0].startswith("$"):
        at = 1
        while at < len(words) and words[at].startswith("-") and words[at] != "-m":
            at += 1
        if list(words[at : at + 1]) == ["-m"] and at + 1 < len(words):
            module = words[at + 1]
            if module in _MODULES:
                return _MODULES[module], at + 2 + module.endswith("cli.main")
        if at < len(words) and words[at].endswith("sglang/launch_server.py"):
            return "sglang", at + 1
        if at < len(words) and words[at].endswith("openai/api_server.py"):
            return "vllm", at + 1
    return None


def _engine_of_image(image: str) -> str:
    for name, engine in (("sglang", "sglang"), ("vllm", "vllm"), ("llama", "llamacpp")):
        if name in image.lower():
            return engine
    return ""


def _read_flags(engine: str, words: Sequence[str], env: dict[str, str], found: Facts) -> None:
    words = list(words)
    if engine == "vllm" and words[:1] == ["serve"]:
        words = words[1:]
    if engine == "llamacpp" and words[:1] in (["--server"], ["-s"]):
        words = words[1:]
    if "$@" in words:
        words.remove("$@")
        found["rest"] = "$@"
    groups: list[list[str]] = []
    for word in words:
        is_flag = re.match(r"--?[A-Za-z]", word) is not None
        if is_flag:
            flag, equals, value = word.partition("=")
            flag = flag.replace("_", "-") if flag.startswith("--") else flag
            groups.append([flag, value] if equals else [flag])
        elif groups:
            groups[-1].append(word)
        else:
            groups.append(["", word])
    if engine == "vllm" and groups and groups[0][0] != "" and len(groups[-1]) == 3:
        groups.append(["", groups[-1].pop()])
    bag: dict[str, list[str]] = {}
    for flag, *values in groups:
        if flag == "" or (flag in _MODEL[engine] and len(values) == 1):
            found["model"] = values[0]
        elif flag in _NAME[engine] and len(values) == 1:
            found["name"] = values[0]
        elif flag in ("--host", "--port") and len(values) == 1:
            found[flag[2:]] = values[0]
        else:
            bag.setdefault(flag, []).append(" ".join(values))
    for flag, each in bag.items():
        found[f"flag {flag}"] = " / ".join(sorted(each))
    if engine == "llamacpp":
        for variable, key in (
            ("LLAMA_ARG_MODEL", "model"), ("LLAMA_ARG_HF_REPO", "model"),
            ("LLAMA_ARG_ALIAS", "name"), ("LLAMA_ARG_HOST", "host"), ("LLAMA_ARG_PORT", "port"),
        ):  # fmt: skip
            value = env.pop(variable, "")
            if value:
                found.setdefault(key, value)


def _read_listening(found: Facts, engine: str, network: str, published: list[str]) -> None:
    """Which addresses of the box lead to the server, and to what else."""
    host, told = found.pop("host", ""), found.pop("port", "")
    inside = told or _DEFAULT_PORT.get(engine, "")
    if not told and engine == "llamacpp" and any(p.endswith(":9931") for p in published):
        inside = "9931"
    if network == "host":
        found["listens"] = f"{_address(host or _DEFAULT_HOST.get(engine, ''))}:{inside}"
        for each in published:
            found[f"publish {each}"] = "yes"
        return
    if host and _address(host) != "*":
        found["host"] = host
    for each in published:
        before, _colon, target = each.rpartition(":")
        address, colon, port = before.rpartition(":")
        place = f"{_address(address if colon else '')}:{port or 'any'}"
        if target == inside or (not engine and "listens" not in found):
            found["listens"] = place
        else:
            found[f"publish {each}"] = place


def _address(said: str) -> str:
    if said in ("", "0.0.0.0", "::", "[::]"):  # noqa: S104 - every address
        return "*"
    return "127.0.0.1" if said == "localhost" else said


@dataclass(frozen=True, kw_only=True)
class Difference:
    fact: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.fact}: {self.theirs!r} → {self.ours!r}"


def compare(theirs: Facts, ours: Facts) -> list[Difference]:
    # A command without a container has no network of its own, and says where it listens.
    only = {"network"} - set(theirs)
    return [
        Difference(fact=key, theirs=theirs.get(key, ""), ours=ours.get(key, ""))
        for key in dict.fromkeys([*theirs, *ours])
        if theirs.get(key, "") != ours.get(key, "") and key not in only
    ]


def is_told(difference: Difference, notes: Iterable[str]) -> bool:
    """Whether one of these notes names what the difference is about."""
    notes = list(notes)
    return any(
        re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", note)
        for word in _names(difference)
        for note in notes
        if word
    )


def _names(difference: Difference) -> list[str]:
    kind, _blank, name = difference.fact.partition(" ")
    theirs, ours = difference.theirs, difference.ours
    if kind in ("env", "flag"):
        return [name]
    if kind == "option":
        short = next((f"-{letter}" for letter, long in _SHORT.items() if long == name), "")
        key = next((key for key, long in _COMPOSE.items() if long == name), "")
        return [key, f"--{name}", short, name, name.replace("-", "_"), *theirs.split()]
    if kind == "volume":
        source = ours.removesuffix(":ro")
        usual = "Hugging Face cache" if source == _CACHE.partition(":")[0] else ""
        first = re.sub(r"-\d{5}-of-", "-00001-of-", source)
        return [f"{theirs}:{name}", f"{ours}:{name}", theirs, source, name, usual, first]
    if kind == "publish":
        return [f"-p {name}", name]
    if kind == "listens":
        port = theirs.rpartition(":")[2]
        inside = ["the engine's port", "names no port", "publishes no port"] if not theirs else []
        return [
            f"port {port}" if port else "",
            f"-p {port}" if port else "",
            "--network host" if theirs else "",
            *inside,
        ]
    if kind == "gpus":
        return ["--gpus", "GPUs", "CUDA_VISIBLE_DEVICES"]
    if kind == "network":
        return ["--network", theirs, "networks", f"--network {theirs}"]
    if kind == "host":
        return ["--host", f"--host {theirs}"]
    if kind == "words":
        return [theirs]
    if kind in ("program", "wrapper"):
        return [theirs, theirs.split()[0] if theirs else "", "entrypoint"]
    if kind == "script":
        return ["script"]
    if kind == "model":
        return [theirs, theirs.rstrip("/")] if theirs else ["model"]
    if kind == "image":
        return [ours, theirs]
    return [kind, theirs]
