"""The GPUs that a command gives its container."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from servers.launch.commandline.command import LaunchCommand

_CDI = "nvidia.com/gpu="  # of the Container Device Interface: podman's --device, compose's devices
_VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")


@dataclass(frozen=True, kw_only=True)
class RequestedGpus:
    gpus: str  # "all", "none", or indices
    variable: str = ""  # said it, and is no variable of the profile any more
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
        return RequestedGpus(gpus=said if said in ("all", "none") else "all")
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
            says = f"{name}={value} became the profile's GPUs."
            return RequestedGpus(gpus=value, variable=name, assumed=says)
    seen = env.get(_VARIABLES[0], "")
    if seen in ("none", "void"):
        return RequestedGpus(gpus="none", variable=_VARIABLES[0])
    if seen.startswith(("GPU-", "MIG-")):
        return replace(_parse_gpus(seen.split(",")), variable=_VARIABLES[0])
    gives = command.runtime == "nvidia" or "NVIDIA_VISIBLE_DEVICES" in env
    if gives or command.kind == "engine_command":
        return RequestedGpus(gpus="all")
    if command.engine == "other":
        return RequestedGpus(gpus="none")
    says = "No GPUs are asked for, so it gets none: choose those that it needs."
    return RequestedGpus(gpus="none", assumed=says)
