"""The options of `docker run`, `podman run` and `nerdctl run`: names, and which take a value.

Source: `docker run --help` of Docker 28; podman-run(1) 5; nerdctl's command reference 2.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import FIELDS, MOST_TRIES, Launch, LaunchField
from servers.launch.tables import read_table


@dataclass(frozen=True, kw_only=True)
class Option:
    name: str  # its long form, without dashes
    takes_value: bool


_TABLE = read_table(__file__)


def _list_options(said: Mapping[str, str]) -> dict[str, Option]:
    same = _TABLE["same"]
    values, switches = said["values"].split(), said["switches"].split()
    found = {name: Option(name=same.get(name, name), takes_value=True) for name in values}
    return found | {name: Option(name=name, takes_value=False) for name in switches}


_DOCKER = _list_options(_TABLE["tools"]["docker"])
_BY_TOOL = {tool: _DOCKER | _list_options(said) for tool, said in _TABLE["tools"].items()}
TOOLS = {**{name: name for name in _BY_TOOL}, "nvidia-docker": "docker", "docker.exe": "docker"}

# Between the tool's name and "run".
GLOBAL_VALUES = frozenset(_TABLE["before_run"].split())


# The options that a launch has a field for, by the name in LaunchCommand, in its order.
_NAMED = {each.pasted or name: name for name, each in FIELDS.items() if each.docker}
OF_LAUNCH = {each.name: _NAMED[each.name] for each in fields(LaunchCommand) if each.name in _NAMED}
LISTS = ("lines", "items", "capabilities")


def list_options(*kinds: str) -> dict[str, LaunchField]:
    """Those of some kinds, by the name in LaunchCommand."""
    return {name: FIELDS[of] for name, of in OF_LAUNCH.items() if FIELDS[of].kind in kinds}


TEXTS = list_options("text", "ipc", "size")
SWITCHES = list_options("switch")


def option(tool: str, name: str) -> Option | None:
    """The option of this tool with a name as typed, without dashes; None if it has none such."""
    return _BY_TOOL[tool].get(_TABLE["short"].get(name, name) if len(name) == 1 else name)


def names(tool: str) -> tuple[str, ...]:
    """All long names of a tool's options, to propose the nearest."""
    return tuple(_BY_TOOL[tool])


_CDI = "nvidia.com/gpu="  # of the Container Device Interface: podman's --device, compose's devices
_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True, kw_only=True)
class RequestedGpus:
    gpus: str  # "all", "none", or indices
    variable: str = ""  # said it, and is no variable of the profile any more
    order: str = ""  # what that variable says inside the container, where it names an order
    assumed: str = ""
    unresolved: str = ""


def is_gpu(device: str) -> bool:
    """Whether a --device is a GPU by its name in CDI."""
    return device.startswith(_CDI)


def find_requested_gpus(command: LaunchCommand, env: Mapping[str, str]) -> RequestedGpus:
    said = command.gpus
    if isinstance(said, int):
        return RequestedGpus(gpus=",".join(map(str, range(said))))
    if isinstance(said, tuple):
        return _parse_gpus(said)
    if said is not None:
        return RequestedGpus(gpus=said) if said in ("all", "none") else _parse_gpus((said,))
    if named := tuple(filter(is_gpu, command.devices)):
        return _parse_gpus(named)
    return _by_variable(command, env)


def _parse_gpus(said: Iterable[str]) -> RequestedGpus:
    names = [each.removeprefix(_CDI) for each in said]
    if "all" in names:
        return RequestedGpus(gpus="all")
    if all(each.isdecimal() for each in names):
        return RequestedGpus(gpus=",".join(names))
    shown = ", ".join(names)
    if "$" in shown or "`" in shown:
        says = f"--gpus {shown}: the paste does not say which these are. Choose them by index."
        return RequestedGpus(gpus="all", unresolved=says)
    return RequestedGpus(
        gpus="all",
        unresolved=f"The GPUs {shown} are named by their ids: choose them by index.",
    )


def _by_variable(command: LaunchCommand, env: Mapping[str, str]) -> RequestedGpus:
    # Names of the first two are the paste's; inside a container with fewer GPUs the
    # indices would mean others.
    for name in _VARIABLES:
        value = env.get(name, "")
        if re.fullmatch(r"\d+(,\d+)*", value):
            return _read_indices(name, value)
    seen = env.get(_VARIABLES[0], "")
    if seen in ("none", "void"):
        return RequestedGpus(gpus="none", variable=_VARIABLES[0])
    if seen.startswith(("GPU-", "MIG-")):
        return replace(_parse_gpus(seen.split(",")), variable=_VARIABLES[0])
    gives = command.runtime == "nvidia" or "NVIDIA_VISIBLE_DEVICES" in env
    if gives or command.kind == "engine_command":
        return RequestedGpus(gpus="all")
    # GPUs of AMD and Intel are devices of the box.
    is_device = any(device.startswith(("/dev/kfd", "/dev/dri")) for device in command.devices)
    if command.engine == "other" or is_device:
        return RequestedGpus(gpus="none")
    says = "No GPUs are requested, so it gets none: choose those that it needs."
    return RequestedGpus(gpus="none", assumed=says)


def _read_indices(name: str, value: str) -> RequestedGpus:
    """Docker gives a container its GPUs in the box's order, and CUDA counts them anew there."""
    indices = [int(each) for each in value.split(",")]
    in_order = sorted(set(indices))
    if name != "CUDA_VISIBLE_DEVICES" or indices == in_order:
        says = f"{name}={value} became the profile's GPUs."
        return RequestedGpus(gpus=value, variable=name, assumed=says)
    gpus = ",".join(map(str, in_order))
    order = ",".join(str(in_order.index(each)) for each in indices)
    return RequestedGpus(
        gpus=gpus,
        variable=name,
        order=order,
        assumed=f"{name}={value} became the profile's GPUs {gpus} and, for their order, "
        f"{name}={order} in the container.",
    )


_ON_FAILURE = re.compile(r"on-failure(?::(\d{1,6}))?")


def read_restart(policy: str) -> tuple[dict[str, Any], str]:
    """Fields of Launch for what `--restart` says, and a remark on them; both may be empty."""
    if policy in ("", "no"):
        return {}, ""
    if policy in ("always", "unless-stopped"):
        return {"restart": "always", "start_with_box": True}, (
            f"--restart {policy}: inferdash does that itself, with pauses that grow, and after a "
            "restart of the box; Docker’s own policy stays off. A person’s stop ends it."
        )
    found = _ON_FAILURE.fullmatch(policy)
    if found is None:
        return {}, f"--restart {policy}: Docker has no such policy. Choose one under Life."
    values: dict[str, Any] = {"restart": "on-failure"}
    if found[1] and int(found[1]):
        values["restart_tries"] = min(int(found[1]), MOST_TRIES)
        return values, (
            f"--restart {policy}: inferdash does that itself, with pauses that grow; Docker’s own "
            "policy stays off."
        )
    return values, (
        f"--restart {policy}: inferdash does that itself and gives up after "
        f"{Launch.restart_tries} starts in a row that failed, where Docker would go on for ever."
    )


def to_docker(launch: Launch) -> str | None:
    """What `docker run --restart` would be given to do as nearly the same as Docker can."""
    if launch.restart == "on-failure" and not launch.start_with_box:
        return f"on-failure:{launch.restart_tries}"
    return "unless-stopped" if launch.restart or launch.start_with_box else None


def name_inexact_restart(launch: Launch) -> str:
    """What of it Docker has no policy for, as a remark; "" where it has one."""
    if launch.restart == "always" and not launch.start_with_box:
        return "whenever it ends, but not after a restart of the box"
    if launch.restart != "always" and launch.start_with_box:
        tries = f"up to {launch.restart_tries} times in a row" if launch.restart else "only"
        return f"{tries}{' and' if launch.restart else ''} after a restart of the box"
    return ""


_HOME = re.compile(r"(?:~|\$HOME|\$\{HOME\}|/root|/home/[^/:]+)/?")
_LOCAL = ("", "127.0.0.1", "localhost", "0.0.0.0", "::1", "[::1]")  # noqa: S104 - says nothing of who
# Flags of an engine that works together with those of other boxes: where they meet, who it is.
_MEETING = (
    "--dist-init-addr",
    "--nccl-init-addr",
    "--master-addr",
    "--data-parallel-address",
    "-dpa",
)
_RANK = ("--node-rank", "--data-parallel-start-rank", "-dpr", "--headless")
# Names of interfaces of the box, which a container's own network has none of.
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES")
_OF_CONTAINER = ("lo", "eth0", "^lo", "^docker0")


def needs_host_network(flags: tuple[str, ...], env: Mapping[str, str]) -> str:
    """What of an engine's command speaks of other boxes or of the box's own interfaces; "" where
    nothing does, so that a published port is as good as the host's network.
    """
    nodes = flag_value(flags, "--nnodes")
    if nodes not in (None, "", "1"):
        return f"--nnodes {nodes}"
    for flag in _MEETING:
        address = flag_value(flags, flag)
        if address is not None and _host_of(address) not in _LOCAL:
            return f"{flag} {address}"
    for flag in _RANK:
        if flag_value(flags, flag) not in (None, "0") and nodes != "1":
            return flag
    for name in _INTERFACES:
        if env.get(name) and env[name] not in _OF_CONTAINER:
            return f"{name}={env[name]}"
    return ""


def describe_host_port(port: int, *, is_local: bool = False) -> str:
    """What is said of a port that stands for the host's network. `is_local`: the engine was told
    to listen on the loopback alone, and so nothing changes for other machines."""
    says = (
        f"--network host became port {port}, published on this box’s 127.0.0.1: on the host’s "
        "network a container reaches, and may hear, everything that this box says to itself."
    )
    if is_local:
        return says
    return (
        f"{says} For other machines write 0.0.0.0 as the address. Docker opens published ports "
        "itself, past ufw and firewalld’s rules."
    )


def list_homes(launch: Launch) -> Iterator[str]:
    """Of each volume that is a whole home, what it gives away and the mounts that are enough."""
    for volume in launch.volumes:
        source, _colon, rest = volume.partition(":")
        if not _HOME.fullmatch(source):
            continue
        source, target = source.rstrip("/"), rest.partition(":")[0].rstrip("/")
        mounts = [f"{source}{part}:{target}{part}" for part in _list_home_paths(launch, target)]
        yield (
            f"{volume}: a whole home, with its keys (.ssh) and what its shells run (.bashrc). Most "
            f"boxes refuse it. Mount what the engine needs instead: {', '.join(mounts)}."
        )


def _list_home_paths(launch: Launch, target: str) -> list[str]:
    """What of a home a launch names, as the container sees it, and the cache that engines fill."""
    words = [launch.checkpoint, *launch.flags, *launch.env.values()]
    values = [word.partition("=")[2] if word.startswith("-") else word for word in words]
    named = [value for value in values if value.startswith(f"{target}/") and ".." not in value]
    parts = [value.removeprefix(target).rstrip("/") for value in named]
    cache = "/.cache/huggingface"
    return list(dict.fromkeys([*(each for each in parts if not each.startswith(cache)), cache]))


def _host_of(address: str) -> str:
    host, colon, port = address.rpartition(":")
    return host if colon and port.isdigit() else address
