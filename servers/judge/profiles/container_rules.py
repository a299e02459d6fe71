"""Rules on a launch's container: resources, ports and secrets."""

import re
from collections.abc import Iterator

from servers.judge.messages import say
from servers.judge.profiles.facts import SECRET_FLAGS, LaunchFacts
from servers.judge.profiles.lint_rules import CheckHit, Fix, adapt_fix, list_checks
from servers.launch.engines import ENGINES, placement
from servers.launch.engines.change import LaunchChange
from servers.launch.engines.engine import listens_beyond_loopback
from servers.launch.engines.llamacpp import name_with_server

GIB = 2**30
# Below this NCCL and vLLM's workers run out of /dev/shm; Docker gives 64 MiB.
LEAST_SHARED = GIB
SHARED = 16 * GIB

_TOKEN = re.compile(r"\b(hf_|sk-|nvapi-|ghp_|github_pat_|glpat-|xox[bp]-)[A-Za-z0-9_-]{8,}")
_SECRET_NAME = re.compile(r"(TOKEN|API_?KEY|ACCESS_?KEY|SECRET|PASSWORD|PASSWD)(_ID)?$")
_NO_SECRET = re.compile(r"|[0-9]+|true|false|on|off|/\S*", re.IGNORECASE)
# A shell variable, or a placeholder that is the whole value.
_BLANK = re.compile(r"\$\{?[A-Z][A-Z0-9_]*|^<[^<>]+>$")


def _shared_memory(facts: LaunchFacts) -> Iterator[CheckHit]:
    launch = facts.launch
    if facts.engine == "llamacpp" or (facts.tp or 1) * (facts.pp or 1) < 2:
        return
    if launch.ipc == "host" or launch.shm_size >= LEAST_SHARED:
        return
    size = f"{launch.shm_size / 2**20:.0f} MiB" if launch.shm_size else "Docker's 64 MiB"
    yield CheckHit(
        says=say("profiles.shared-memory", size=size),
        about="shm_size",
        fix=_fix(facts, LaunchChange(fields={"shm_size": SHARED})),
    )


def _gpus_there(facts: LaunchFacts) -> Iterator[CheckHit]:
    gpus, wanted = facts.subject.gpus, facts.launch.gpus
    if gpus is not None and (which := placement.parse_gpu_requirement(wanted)):
        try:
            placement.choose_gpus(which, [(g.index, (g.name, g.compute_capability)) for g in gpus])
        except placement.CardsError as error:
            yield CheckHit(says=say("profiles.gpus-do-not-match", why=str(error)), about="gpus")
    if wanted in ("all", "none") or gpus is None or facts.gpu_indices is None:
        return
    missing = sorted(set(facts.gpu_indices) - {gpu.index for gpu in gpus})
    if missing:
        there = ", ".join(f"{gpu.index} ({gpu.name})" for gpu in gpus) or "none"
        lacking = ", ".join(map(str, missing))
        yield CheckHit(
            says=say("profiles.gpu-not-there", missing=lacking, there=there),
            about="gpus",
            fix=_fix(facts, LaunchChange(fields={"gpus": "all"})) if gpus else None,
        )


def _mixed_gpus(facts: LaunchFacts) -> Iterator[CheckHit]:
    used = facts.used_gpus or ()
    coherent = [gpu for gpu in used if re.search("GB300", gpu.name)]
    if coherent and len(coherent) < len(used):
        indices = ",".join(str(gpu.index) for gpu in coherent)
        yield CheckHit(
            says=say("profiles.gpus-mixed"),
            about="gpus",
            fix=_fix(facts, LaunchChange(fields={"gpus": indices})),
        )


def _loopback(facts: LaunchFacts) -> Iterator[CheckHit]:
    host = facts.flag("--host")
    if host is None or facts.launch.network == "host" or listens_beyond_loopback(host.value):
        return
    yield CheckHit(
        says=say("profiles.host-loopback", host=host.value),
        about=host.word,
        fix=_fix(facts, LaunchChange(drop_flags=("--host",))),
    )


def _port(facts: LaunchFacts) -> Iterator[CheckHit]:
    launch, port = facts.launch, facts.flag("--port")
    if port is None:
        return
    if not re.fullmatch(r"\d{1,5}", port.value) or not 0 < int(port.value) < 65536:
        yield CheckHit(
            says=say("profiles.port-invalid", port=port.value),
            about=port.word,
            fix=_fix(facts, LaunchChange(drop_flags=("--port",))),
            severity="error",
        )
    elif launch.port and launch.port != int(port.value):
        yield CheckHit(
            says=say("profiles.port-twice", port=launch.port, flag=port.value),
            about=port.word,
            fix=_fix(facts, LaunchChange(drop_flags=("--port",))),
        )


def _host_port(facts: LaunchFacts) -> Iterator[CheckHit]:
    launch = facts.launch
    port = ENGINES[facts.engine].port(launch)
    if launch.network == "host" and launch.host_port not in (0, port):
        yield CheckHit(
            says=say("profiles.host-port-ignored", port=port, host_port=launch.host_port),
            about="host_port",
            fix=_fix(facts, LaunchChange(fields={"host_port": 0})),
        )


def _secrets(facts: LaunchFacts) -> Iterator[CheckHit]:
    for name, value in facts.launch.env.items():
        is_token = bool(_TOKEN.search(value))
        is_named_so = bool(_SECRET_NAME.search(name)) and _may_be_secret(value)
        if not is_token and not is_named_so:
            continue
        change = LaunchChange(drop_env=(name,), fields={"pass_hf_token": True})
        code = "profiles.secret-variable"
        if name == "HF_TOKEN":
            code = "profiles.secret-hf-token"
        yield CheckHit(
            says=say(code, name=name),
            about=name,
            fix=_fix(facts, change) if name == "HF_TOKEN" else None,
            severity="error" if is_token else None,
        )
    for typed in facts.typed:
        is_token = bool(_TOKEN.search(typed.value))
        is_named_so = typed.name in SECRET_FLAGS and _may_be_secret(typed.value)
        if is_token or is_named_so:
            variable = _variable(facts.engine, typed.name)
            said = say("profiles.secret-flag", flag=typed.word)
            if variable:
                code = "profiles.secret-flag-with-variable"
                said = say(code, flag=typed.word, variable=variable)
            yield CheckHit(
                says=said,
                about=typed.word,
                severity="error" if is_token else None,
            )


def _variable(engine: str, flag: str) -> str:
    """The variable that does what a flag with a secret does; "" where there is none."""
    if flag in ("--hf-token", "-hft"):
        return "HF_TOKEN"
    own = {"vllm": "VLLM_API_KEY", "llamacpp": "LLAMA_API_KEY"}
    return own.get(engine, "") if flag == "--api-key" else ""


def _may_be_secret(value: str) -> bool:
    return not _NO_SECRET.fullmatch(value) and not _BLANK.search(value)


def _serves(facts: LaunchFacts) -> Iterator[CheckHit]:
    image = facts.launch.image
    if facts.engine == "llamacpp" and (server := name_with_server(image)):
        yield CheckHit(
            says=say("profiles.image-without-server", image=image, server=server),
            about="image",
            fix=_fix(facts, LaunchChange(fields={"image": server})),
        )


def _blanks(facts: LaunchFacts) -> Iterator[CheckHit]:
    launch = facts.launch
    if any(word.rsplit("/", 1)[-1] in ("sh", "bash") for word in launch.entrypoint):
        return
    for typed in facts.typed:
        if _BLANK.search(typed.value) and not _TOKEN.search(typed.value):
            yield CheckHit(says=say("profiles.blank", value=typed.value), about=typed.word)
    for name, value in launch.env.items():
        if _BLANK.search(value):
            token = LaunchChange(drop_env=(name,), fields={"pass_hf_token": True})
            fix = _fix(facts, token) if name == "HF_TOKEN" else None
            yield CheckHit(
                says=say("profiles.blank", value=value), about=name, severity="warning", fix=fix
            )
    for name in ("checkpoint", "image", "served_name"):
        value = getattr(launch, name)
        if _BLANK.search(value):
            yield CheckHit(says=say("profiles.blank", value=value), about=name)


def _fix(facts: LaunchFacts, change: LaunchChange) -> LaunchChange | None:
    return adapt_fix(Fix(change=change), facts, reason="")


CHECKS = list_checks(
    {
        "shared-memory": _shared_memory,
        "gpu-not-there": _gpus_there,
        "gpus-mixed": _mixed_gpus,
        "host-loopback": _loopback,
        "port": _port,
        "host-port-ignored": _host_port,
        "secret-in-plain-text": _secrets,
        "image-without-server": _serves,
        "blank": _blanks,
    }
)
