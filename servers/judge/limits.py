"""What a box allows to containers, whatever a profile asks for.

The limits stand in the worker's own file, which the web process cannot write: whoever
takes over the web still cannot mount / into a container.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from servers.host import paths
from servers.host.containers import Spec


@dataclass(frozen=True, kw_only=True)
class Limits:
    # Bind mounts must lie below one of these after symbolic links are followed.
    mount_roots: tuple[str, ...] = ()
    # Docker volumes beside those that inferdash made: another program's may hold anything.
    volumes: tuple[str, ...] = ()
    privileged: bool = False
    host_network: bool = True
    host_ipc: bool = True
    host_pid: bool = False
    devices: tuple[str, ...] = ("/dev/infiniband",)
    cap_add: tuple[str, ...] = ("SYS_NICE", "IPC_LOCK")
    security_opt: tuple[str, ...] = ()
    reclaim: bool = False  # may caches of the kernel be dropped, which takes root's rights
    open_ports: bool = True  # may engine ports bind beyond 127.0.0.1


class LimitsError(Exception):
    """The limits file cannot be used; the text says which line and what to write."""


def default_text(home: str) -> str:
    """The limits file that a new worker writes, with every limit and what it opens."""
    return f"""\
# What containers may do on this box. Only the worker reads this file; the web cannot change it.

# Folders that profiles may mount. Everything else on the box stays out of reach.
mount_roots = ["{home}", "/mnt", "/data", "/models", "/srv"]

# Docker volumes that profiles may mount although inferdash did not make them.
volumes = []

# true gives containers the whole machine.
privileged = false
host_pid = false

# Many recipes ask for these two; host_network also lets an engine listen on every address.
host_network = true
host_ipc = true

# true lets a profile have the box's page cache dropped before it is started, and admins reclaim
# memory from the box's page. That takes root's rights: where inferdash has none, a container that
# may write kernel settings does just that.
reclaim = false

# May an engine's port be opened beyond 127.0.0.1?
open_ports = true

devices = ["/dev/infiniband"]
cap_add = ["SYS_NICE", "IPC_LOCK"]
security_opt = []
"""


def read(path: Path) -> Limits:
    """The limits in a file. Raises LimitsError, and OSError when it cannot be read."""
    try:
        values: dict[str, Any] = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise LimitsError(f"{path} is not valid TOML: {error}.") from error
    defaults = Limits()
    known = {field.name for field in fields(Limits)}
    for name, value in values.items():
        if name not in known:
            raise LimitsError(f"{path}: {name} is not a limit. Known: {', '.join(sorted(known))}.")
        wants_list = isinstance(getattr(defaults, name), tuple)
        is_right = (
            isinstance(value, list) and all(isinstance(item, str) for item in value)
            if wants_list
            else isinstance(value, bool)
        )
        if not is_right:
            kind = "a list of texts" if wants_list else "true or false"
            raise LimitsError(f"{path}: {name} must be {kind}.")
    allowed: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return Limits(**allowed)


def refusals(
    spec: Spec, limits: Limits, *, root: Path = Path("/"), own: Iterable[str] = ()
) -> list[str]:
    """Why this box will not run this container: one sentence a reason, empty when it will.

    Checked on the resolved spec, as the last thing before Docker is asked. `root` is where
    this process sees the box's "/". `own` are paths on the box that no container gets,
    whatever the limits say: whoever has inferdash's keys or Docker's socket has the box.
    """
    found = [
        mount_refusal(mount.source, limits, root=root, own=own)
        for mount in spec.mounts
        if mount.kind == "bind"
    ]
    found += [_of_device(device.split(":")[0], limits, root) for device in spec.devices]
    asked_and_allowed = [
        (spec.privileged, limits.privileged, "privileged containers"),
        (spec.network == "host", limits.host_network, "the host's network"),
        (spec.ipc == "host", limits.host_ipc, "the host's IPC namespace"),
        (spec.pid == "host", limits.host_pid, "the host's processes (pid: host)"),
        (
            any(not _is_loopback(port.host_ip) for port in spec.ports),
            limits.open_ports,
            "ports that other machines can reach",
        ),
    ]
    found += [
        f"This box does not allow {what}. Its administrator can in box.toml."
        for asked, allowed, what in asked_and_allowed
        if asked and not allowed
    ]
    for name in ("network", "ipc", "pid"):
        if getattr(spec, name).startswith("container:"):
            found.append(f"Sharing another container's {name} namespace is not possible here.")
    found += [
        f"This box does not allow {what} {item}. Its administrator can in box.toml."
        for what, items, allowed in (
            ("the capability", spec.cap_add, limits.cap_add),
            ("the security option", spec.security_opt, limits.security_opt),
        )
        for item in items
        if item not in allowed
    ]
    return [sentence for sentence in found if sentence]


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def mount_refusal(
    source: str, limits: Limits, *, root: Path = Path("/"), own: Iterable[str] = ()
) -> str:
    """Why this box does not let a container have this path; "" when it does.

    `root` and `own` as for refusals().
    """
    # Followed to the end: a link below an allowed folder may lead to /etc.
    try:
        real = paths.resolve(source, root=root)
        allowed = [paths.resolve(folder, root=root) for folder in limits.mount_roots]
        kept = [paths.resolve(path, root=root) for path in own]
    except paths.PathError as error:
        return str(error)
    for path in kept:
        if path.is_relative_to(real) or real.is_relative_to(path):
            return (
                f"{source} holds {path} or lies in it, which is inferdash's own or Docker's and "
                "would give the container this box. Mount a folder beside it."
            )
    if any(real.is_relative_to(folder) for folder in allowed):
        return ""
    where = source if str(real) == source else f"{source} (in truth {real})"
    roots = ", ".join(limits.mount_roots) or "none"
    return (
        f"{where} lies outside the folders that this box lets profiles mount ({roots}). "
        "Its administrator can add one in box.toml."
    )


def _of_device(device: str, limits: Limits, root: Path) -> str:
    # Docker follows links and ".." here too.
    try:
        real = paths.resolve(device, root=root)
        allowed = [paths.resolve(path, root=root) for path in limits.devices]
    except paths.PathError as error:
        return str(error)
    if device.startswith("/") and any(real.is_relative_to(path) for path in allowed):
        return ""
    return f"This box does not allow the device {device}. Its administrator can in box.toml."
