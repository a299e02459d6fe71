"""Facts of a launch, read from its words without the importer's own code: what a paste says
beside what an export says.

It knows three engines, and is told everything else as it stands.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.commandline.launch_words import COMPOSE, SHORT, LaunchWords

type Facts = dict[str, str]

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
_CACHE = "~/.cache/huggingface:/root/.cache/huggingface"
# A container's name becomes the profile's.
_NO_FACTS = {"name"}


def read_facts(said: LaunchWords, engine: str = "") -> Facts:
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
        elif name not in _NO_FACTS and (name, value) != ("restart", "no"):
            many.setdefault(name, []).append(value or "yes")
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


def _read_program(said: LaunchWords, engine: str, env: dict[str, str], found: Facts) -> str:
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
class FactDifference:
    fact: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.fact}: {self.theirs!r} → {self.ours!r}"


def compare(theirs: Facts, ours: Facts) -> list[FactDifference]:
    # A command without a container has no network of its own, and says where it listens.
    only = set() if "network" in theirs else {"network", "option init"}
    return [
        FactDifference(fact=key, theirs=theirs.get(key, ""), ours=ours.get(key, ""))
        for key in dict.fromkeys([*theirs, *ours])
        if theirs.get(key, "") != ours.get(key, "") and key not in only
    ]


def is_told(difference: FactDifference, notes: Iterable[str]) -> bool:
    """Whether one of these notes names what the difference is about."""
    words = [re.escape(word) for word in _names(difference) if word]
    letter = next((each for each, long in SHORT.items() if f"option {long}" == difference.fact), "")
    if letter:
        words.append(rf"-[a-z]*{letter}[a-z]*")  # -it
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])")
    return any(named.search(note) for note in notes)


def _names(difference: FactDifference) -> list[str]:
    kind, _blank, name = difference.fact.partition(" ")
    theirs, ours = difference.theirs, difference.ours
    if kind in ("env", "flag"):
        return [name]
    if kind == "option":
        key = next((key for key, long in COMPOSE.items() if long == name), "")
        return [key, f"--{name}", name, name.replace("-", "_"), *theirs.split()]
    if kind == "volume":
        source = ours.removesuffix(":ro")
        usual = "Hugging Face cache" if source == _CACHE.partition(":")[0] else ""
        first = re.sub(r"-\d{5}-of-", "-00001-of-", source)
        return [f"{theirs}:{name}", f"{ours}:{name}", theirs, source, name, usual, first]
    if kind == "publish":
        port = name.rpartition(":")[2]
        taken = [f"{port} is published", f"port {port} is taken"] if not theirs else []
        return [f"-p {name}", name, *taken]
    if kind == "listens":
        port = theirs.rpartition(":")[2]
        inside = ["the engine's port", "names no port", "publishes no port"] if not theirs else []
        return [
            f"port {port}" if port else "",
            f"-p {port}" if port else "",
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
