"""Privileges that guides give a container, and what is enough."""

import re
from collections.abc import Iterator, Mapping

from servers.launch.engines.engine import flag_value
from servers.launch.engines.launch import Launch

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

PRIVILEGED = (
    "--privileged: the container owns the box, which most boxes refuse. Guides write it for RDMA "
    "(instead: devices /dev/infiniband, capability IPC_LOCK, ulimit memlock=-1), for NUMA and "
    "priorities (instead: capability SYS_NICE), or for no reason. Try without it."
)


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


def describe_host_port(port: int) -> str:
    """What is said of a port that stands for the host's network."""
    return (
        f"--network host became port {port}, published on this box’s 127.0.0.1: on the host’s "
        "network a container reaches, and may hear, everything that this box says to itself. For "
        "other machines write 0.0.0.0 as the address. Docker opens published ports itself, past ufw "
        "and firewalld’s rules."
    )


def homes(launch: Launch) -> Iterator[str]:
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
