"""Containers and processes that run, by `docker inspect` or their words, read as drafts of profiles."""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from servers.launch.commandline import engine_words, text_boxes, tokens
from servers.launch.commandline.container_draft import HF_TOKENS, IN_REPOSITORY, names_relative
from servers.launch.commandline.draft import Draft, DraftError, draft
from servers.launch.commandline.export import HF_CACHE
from servers.launch.commandline.import_notes import ImportNote
from servers.launch.commandline.tokens import EngineKey, LaunchCommand
from servers.launch.engines import ENGINES
from servers.launch.engines.engine import flag_value
from servers.launch.tables import freeze, read_table

type Json = Mapping[str, Any]

UNKNOWN = "unknown-model"

CACHE_TARGET = HF_CACHE.rpartition(":")[2]
SHM_SIZE = 64 * 2**20  # Docker's own, bytes
_TABLE = freeze(read_table(__file__))
_PROJECT, _SERVICE = "com.docker.compose.project", "com.docker.compose.service"


def draft_of(
    container: Json,
    image: Json | None,
    *,
    engine: EngineKey | None = None,
    model: str = "",
    home: str = "",
    hf_cache: str = "",
    hf_token: str = "",
) -> Draft:
    """The profile of a container that is there; see command_of.

    `engine` and `model` are what its API says of itself, "" where it has not answered: they serve
    where a script in the image hides what it starts. Keys on the command line become secrets where
    the engine takes them from a variable, too. Raises DraftError where nothing says which engine
    it is.
    """
    command = command_of(container, image, home=home, hf_cache=hf_cache, hf_token=hf_token)
    if engine is not None:
        command = replace(command, engine=engine)
    try:
        made = without_keys(draft(command, engine=engine, keeps_network=True, knows_image=True))
    except DraftError:
        if engine is None:
            raise
        made = _of_script(command, engine, model or UNKNOWN)
    launch = made.launch
    if not launch.checkpoint:
        launch = replace(launch, checkpoint=model or UNKNOWN)
    remarks = tuple(_retell(each, "container") for each in made.remarks)
    return replace(made, launch=launch, remarks=remarks)


def _of_script(command: LaunchCommand, engine: EngineKey, model: str) -> Draft:
    words = (*ENGINES[engine].program, *_TABLE["model"][engine], model)
    alone = replace(command, entrypoint=None, command=words)
    made = draft(alone, engine=engine, keeps_network=True, knows_image=True)
    note = ImportNote(
        kind="unresolved",
        says="A script of its image starts the engine, so that its flags are not known: this "
        "profile names only the model that its API lists. Write the others before you start it.",
    )
    return replace(made, remarks=(note, *made.remarks))


def command_of(
    container: Json, image: Json | None, *, home: str = "", hf_cache: str = "", hf_token: str = ""
) -> LaunchCommand:
    """The options and words that somebody gave, without what its image says by itself.

    `container` and `image` are Docker's JSON; None for an image that is gone: then what was its
    own cannot be told apart. `home`, `hf_cache` and `hf_token` are the box's, which a profile
    does not name. What Docker does unless it is told otherwise is left out.
    """
    config, host = container["Config"], container["HostConfig"]
    own = (image or {}).get("Config") or {}
    labels = config.get("Labels") or {}
    entrypoint, words = _words(config, own)
    reference = str(config.get("Image") or container.get("Image") or "")
    return LaunchCommand(
        kind="docker_run",
        engine=engine_words.engine_of(
            image=reference, entrypoint=tuple(config.get("Entrypoint") or ()), command=words
        ),
        image=reference,
        entrypoint=entrypoint,
        command=words,
        env=dict(_environment(config, own, hf_token)),
        volumes=tuple(dict.fromkeys(_volumes(host, home, hf_cache))),
        ports=tuple(dict.fromkeys(_ports(host))),
        ipc=_unless(host.get("IpcMode"), "", "private"),
        shm_size=_shm_size(host),
        ulimits={each["Name"]: _ulimit(each) for each in host.get("Ulimits") or ()},
        gpus=_gpus(host),
        runtime=_unless(host.get("Runtime"), "", "runc"),
        network=_network(host),
        cap_add=tuple(each.removeprefix("CAP_") for each in host.get("CapAdd") or ()),
        privileged=bool(host.get("Privileged")),
        name=str(container.get("Name") or "").lstrip("/") or None,
        restart=_restart(host.get("RestartPolicy") or {}),
        devices=tuple(_device(each) for each in host.get("Devices") or ()),
        cpuset=host.get("CpusetCpus") or None,
        user=_unless(config.get("User"), "", own.get("User")),
        workdir=_unless(config.get("WorkingDir"), "", own.get("WorkingDir")),
        security_opt=tuple(_security(host)),
        init=bool(host.get("Init")),
        service=labels.get(_SERVICE),
        ignored=tuple(_rest(config, own, host)),
    )


def argv(container: Json) -> tuple[str, ...]:
    """Every word of the program that it runs, with the secrets among them."""
    config = container["Config"]
    return (*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ()))


def _words(config: Json, own: Json) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The entrypoint where it is not the image's, and the words behind it.

    An image whose own words start an engine is no reason to say nothing: without them nobody
    would know its model.
    """
    entrypoint = tuple(config.get("Entrypoint") or ())
    words = tuple(config.get("Cmd") or ())
    is_own = list(entrypoint) == list(own.get("Entrypoint") or ())
    starts = engine_words.find([*entrypoint, *words]) is not None
    if is_own and list(words) == list(own.get("Cmd") or ()) and not starts:
        words = ()
    # Behind an entrypoint that is the engine the words are enough for a profile; one with a
    # model in it says more than any profile of that image could.
    says_model = starts and is_own and bool((engine_words.find(entrypoint) or ("", ()))[1])
    return (entrypoint if not is_own or says_model else None), words


def _environment(config: Json, own: Json, hf_token: str) -> Iterator[tuple[str, str | None]]:
    of_image = set(own.get("Env") or ())
    for text in config.get("Env") or ():
        name, _equals, value = text.partition("=")
        if text in of_image or (not of_image and name == "PATH"):
            continue
        is_boxes = bool(hf_token) and value == hf_token and name in HF_TOKENS
        yield name, None if is_boxes else value


def _volumes(host: Json, home: str, hf_cache: str) -> Iterator[str]:
    """Those that somebody named: what an image declares gets a volume of no name."""
    for text in host.get("Binds") or ():
        source, _colon, rest = text.partition(":")
        target, _colon, options = rest.partition(":")
        if target:
            yield _volume(source, target, "ro" in options.split(","), home, hf_cache)
    for mount in host.get("Mounts") or ():
        if mount.get("Type") in ("bind", "volume") and mount.get("Source"):
            read_only = bool(mount.get("ReadOnly"))
            yield _volume(mount["Source"], mount["Target"], read_only, home, hf_cache)


def _volume(source: str, target: str, read_only: bool, home: str, hf_cache: str) -> str:
    home = home.rstrip("/")
    cache = hf_cache.replace("~", home, 1).rstrip("/") if hf_cache.startswith("~") else hf_cache
    usual = f"{home}/.cache/huggingface" if home else ""
    if target == CACHE_TARGET and not read_only and source.rstrip("/") in (cache, usual) and source:
        return HF_CACHE
    if home and (source == home or source.startswith(f"{home}/")):
        source = f"~{source.removeprefix(home)}"
    return f"{source}:{target}:ro" if read_only else f"{source}:{target}"


def _ports(host: Json) -> Iterator[str]:
    for port, bindings in (host.get("PortBindings") or {}).items():
        for each in bindings or ():
            address, there = each.get("HostIp") or "", each.get("HostPort") or ""
            if address in ("", "0.0.0.0", "::"):  # noqa: S104 - what Docker does anyway
                yield f"{there}:{port}".removesuffix("/tcp") if there else port.removesuffix("/tcp")
            else:
                shown = f"[{address}]" if ":" in address else address
                yield f"{shown}:{there}:{port}".removesuffix("/tcp")


def _unless(said: object, *usual: object) -> str | None:
    return None if said is None or said in usual else str(said)


def _shm_size(host: Json) -> str | None:
    size = int(host.get("ShmSize") or 0)
    return str(size) if size not in (0, SHM_SIZE) and host.get("IpcMode") != "host" else None


def _ulimit(limit: Json) -> str:
    soft, hard = limit["Soft"], limit["Hard"]
    return str(soft) if soft == hard else f"{soft}:{hard}"


def _gpus(host: Json) -> str | int | tuple[str, ...] | None:
    for request in host.get("DeviceRequests") or ():
        ids: Sequence[str] = request.get("DeviceIDs") or ()
        if request.get("Driver") == "cdi":
            # nvidia.com/gpu=0; the older way knows the same numbers.
            ids = [each.partition("=")[2] for each in ids if each.startswith("nvidia.com/gpu=")]
            if not ids:
                continue
        if list(ids) == ["all"] or (not ids and request.get("Count") == -1):
            return "all"
        if ids:
            return tuple(ids)
        if request.get("Count"):
            return int(request["Count"])
    return None


def _network(host: Json) -> str | None:
    """None also for another container's network: a profile cannot ask for that."""
    said = _unless(host.get("NetworkMode"), "", "default", "bridge")
    return None if said is None or said.startswith("container:") or said == "none" else said


def _restart(policy: Json) -> str | None:
    name, times = policy.get("Name") or "", policy.get("MaximumRetryCount") or 0
    if name in ("", "no"):
        return None
    return f"{name}:{times}" if name == "on-failure" and times else str(name)


def _device(device: Json) -> str:
    here, there = device["PathOnHost"], device.get("PathInContainer") or device["PathOnHost"]
    rights = device.get("CgroupPermissions") or "rwm"
    if rights != "rwm":
        return f"{here}:{there}:{rights}"
    return here if here == there else f"{here}:{there}"


def _security(host: Json) -> Iterator[str]:
    for each in host.get("SecurityOpt") or ():
        # Docker adds this to the privileged itself.
        if not (host.get("Privileged") and each in ("label=disable", "label:disable")):
            yield each


def _rest(config: Json, own: Json, host: Json) -> Iterator[str]:
    """What a profile has no place for, as options."""
    yield from (
        f"{flag} {host[name]}" for flag, name in _TABLE["said_once"].items() if host.get(name)
    )
    if cpus := host.get("NanoCpus"):
        yield f"--cpus {cpus / 10**9:g}"
    if str(host.get("NetworkMode") or "").startswith(("container:", "none")):
        yield f"--network {host['NetworkMode']}"
    if host.get("ReadonlyRootfs"):
        yield "--read-only"
    if host.get("PublishAllPorts"):
        yield "--publish-all"
    for flag, name in _TABLE["said_often"].items():
        yield from (f"{flag} {each}" for each in host.get(name) or ())
    yield from (f"--tmpfs {folder}" for folder in host.get("Tmpfs") or {})
    yield from (f"--sysctl {name}={value}" for name, value in (host.get("Sysctls") or {}).items())
    if config.get("Healthcheck") and config["Healthcheck"] != own.get("Healthcheck"):
        yield "--health-cmd"
    if config.get("StopSignal") and config["StopSignal"] != own.get("StopSignal"):
        yield f"--stop-signal {config['StopSignal']}"


def without_keys(made: Draft) -> Draft:
    """Keys among the flags as secrets, where the engine takes them from a variable, too."""
    for flag, variable in _TABLE["keys"].get(made.launch.engine, {}).items():
        made = _without_key(made, flag, variable)
    return made


def _without_key(made: Draft, flag: str, variable: str) -> Draft:
    flags = made.launch.flags
    at = [n for n, word in enumerate(flags) if word.partition("=")[0].replace("_", "-") == flag]
    key = flag_value(flags, flag)
    if not key or len(at) != 1 or variable in (*made.launch.env, *made.secrets):
        return made
    first, taken = at[0], 1 if "=" in flags[at[0]] else 2
    behind = flags[first + taken : first + taken + 1]
    if taken == 2 and behind and not behind[0].startswith("-"):
        return made  # several keys: a variable holds one
    left = flags[:first] + flags[first + taken :]
    note = ImportNote(kind="assumed", says=f"{flag} is kept as the secret {variable}.")
    reasons = {name: why for name, why in made.launch.reasons.items() if name != flag}
    return replace(
        made,
        launch=replace(made.launch, flags=left, reasons=reasons),
        secrets={**made.secrets, variable: "" if tokens.is_secret_open(key) else key},
        remarks=(*made.remarks, note),
    )


def _retell(remark: ImportNote, what: str) -> ImportNote:
    """A draft speaks of the paste that it was made of; here that is a container or a process."""
    says = remark.says.replace("The paste", f"The {what}").replace("the paste", f"the {what}")
    return replace(remark, says=says)


# Variables that say something to an engine, its libraries or the driver; the others are those of
# the shell, the desktop or the systemd unit that started it.
_SAYS_SOMETHING = re.compile(
    r"(VLLM|SGLANG|SGL|LLAMA|GGML|HF|HUGGING_FACE|HUGGINGFACE|TRANSFORMERS|TOKENIZERS|CUDA|CUBLAS|"
    r"NVIDIA|NCCL|TORCH|TORCHINDUCTOR|PYTORCH|TRITON|FLASHINFER|FLASH_ATTENTION|OMP|MKL|RAY|GLOO|UCX|"
    r"TORCHDYNAMO|DG|DEEP_GEMM|SAFETENSORS|MODELSCOPE|NVSHMEM|TQDM)_"
)
_SWITCH = re.compile(r"-[bBdEiIOPqsSuv]+")
# Paths of the box, of which a container has its own.
_PLACES = re.compile(r"(^|_)(HOME|PATH|DIR|CACHE|ROOT)$")


def keep_variables(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that a profile takes over."""
    return {
        name: value
        for name, value in env.items()
        if _SAYS_SOMETHING.match(name) and not (_PLACES.search(name) and value.startswith("/"))
    }


def draft_of_process(
    argv: Sequence[str], env: Mapping[str, str] | None, *, folder: str = "", image: str = ""
) -> Draft:
    """`env` is None where it may not be read; `folder` is where it runs, "" where unknown.

    `image` is what its profile is to start; "": the engine's official one. Values that look like
    secrets become secrets, keys of the command line too. Raises DraftError for words that start
    no engine.
    """
    found = engine_words.find(without_python(argv))
    if found is None:
        raise DraftError("Its words start no engine any more.")
    engine, own = found
    said = keep_variables(env or {})
    start = _start(argv, len(own))
    command = LaunchCommand(
        kind="engine_command",
        engine=engine,
        command=(*start, *_find_relative_paths(own, folder)),
        env=dict(said),
        image=image or None,
    )
    made = without_keys(draft(command))
    remarks = tuple(_retell(each, "process") for each in made.remarks)
    return replace(made, remarks=(*remarks, *_list_notes(env, said)))


def without_python(argv: Sequence[str]) -> Sequence[str]:
    """The words from the engine's program on: a venv's script stands behind its interpreter."""
    if not engine_words.program(argv[0]).startswith("python"):
        return argv
    # Behind python's own options that have no value, such as -u.
    script = next((n for n, word in enumerate(argv) if n and not _SWITCH.fullmatch(word)), 0)
    is_script = script > 0 and engine_words.program(argv[script]) in ("vllm", "sglang")
    return argv[script:] if is_script else argv


def _start(argv: Sequence[str], own: int) -> tuple[str, ...]:
    found = tuple(without_python(argv))
    return found[: len(found) - own]


def _find_relative_paths(own: tuple[str, ...], folder: str) -> tuple[str, ...]:
    """Relative paths to models, which meant something in the folder that it was started in."""
    if not folder:
        return own
    found = list(own)
    for at, word in enumerate(own):
        before = own[at - 1] if at else ""
        flag, equals, value = word.partition("=") if word.startswith("-") else (before, "", word)
        if flag not in IN_REPOSITORY and names_relative(value):
            path = posixpath.normpath(posixpath.join(folder, value))
            found[at] = f"{flag}={path}" if equals else path
    return tuple(found)


def _list_notes(env: Mapping[str, str] | None, said: Mapping[str, str]) -> tuple[ImportNote, ...]:
    if env is None:
        says = (
            "Its variables may not be read by inferdash, which is neither its user nor root: write "
            "those that matter here."
        )
        return (ImportNote(kind="unresolved", says=says),)
    left = sorted(name for name in env if name not in said)
    # A secret of the shell's is nobody's business here, not even its name.
    names = [name for name in left if not text_boxes.is_secret(name)]
    if not left:
        return ()
    shown = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
    says = f"{len(left)} variables of the shell or unit that started it, such as {shown}."
    return (ImportNote(kind="ignored", says=says),)
