"""Limits that are wider than they need to be, each with its reason and remedy."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from servers.judge.runs import limits
from servers.judge.runs.limits import Limits, line

_PARTS = {
    "capabilities": "capabilities that no engine needs are taken away",
    "no-new-privileges": "programs gain no privileges (no-new-privileges)",
    "pids": "the number of processes is limited",
}


@dataclass(frozen=True, kw_only=True)
class MountPermission:
    rule: str
    title: str
    because: str
    advice: str = ""
    command: str = ""  # typed on the box; "" where no command closes it
    servers: tuple[str, ...] = ()  # whose profiles would no longer start

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"servers": list(self.servers)}


@dataclass(frozen=True, kw_only=True)
class MountFolder:
    """One of the folders that may be mounted."""

    path: str
    held: tuple[str, ...] = ()  # parts of an account that lie in it
    lacks: tuple[str, ...] = ()  # of nosuid and nodev
    point: str = ""  # where the disk that it lies on is mounted


@dataclass(frozen=True, kw_only=True)
class PlacedMount:
    """What a server of the box asks of it."""

    slug: str
    on_host_network: bool
    mounts: tuple[str, ...]  # paths of the box


def openings(
    allowed: Limits,
    roots: Iterable[MountFolder],
    placed: Iterable[PlacedMount],
    *,
    home: str,
    manage: str,
    left_out: Mapping[str, str],
) -> list[MountPermission]:
    """The gravest first. `home` is the account's, `manage` how inferdash is called on the box,
    `left_out` the parts of hardening that its Docker refuses, with its words."""
    servers = list(placed)
    known = list(roots)
    found = [_home(each, allowed, servers, home=home, manage=manage) for each in known if each.held]
    if allowed.host_network:
        found.append(_network(servers, manage=manage))
    found += [_left_out(part, why) for part, why in left_out.items()]
    if lacking := [each for each in known if each.lacks]:
        found.append(_options(lacking))
    return found


def _home(
    root: MountFolder, allowed: Limits, servers: list[PlacedMount], *, home: str, manage: str
) -> MountPermission:
    inside = [
        each
        for each in limits.of_home(home)
        if _lies_in(each, root.path) and each not in allowed.mount_roots
    ]
    others = [each for each in allowed.mount_roots if each != root.path] + inside
    using = tuple(
        each.slug
        for each in servers
        if any(
            _lies_in(source, root.path) and not any(_lies_in(source, other) for other in others)
            for source in each.mounts
        )
    )
    narrower = [line(manage, "allow", "mount", *inside)] if inside else []
    return MountPermission(
        rule="home",
        title=f"Profiles may mount {root.path}",
        because=f"It holds {', '.join(root.held[:4])}: whoever may edit profiles can have a "
        "container write there, and so has that account.",
        advice="Allow the folders that engines need, and no longer the whole. Folders of your own "
        "go behind them on the first line.",
        command=" && \\\n  ".join([*narrower, line(manage, "forbid", "mount", root.path)]),
        servers=using,
    )


def _network(servers: list[PlacedMount], *, manage: str) -> MountPermission:
    return MountPermission(
        rule="host-network",
        title="Profiles may use the host’s network",
        because="An engine there listens on every address, and whatever listens on 127.0.0.1 of "
        "this box is open to it: inferdash’s own page, databases, other engines.",
        advice="Give the profiles a published port (network bridge). Clusters over several boxes "
        "need the host’s network.",
        command=line(manage, "forbid", "host_network"),
        servers=tuple(each.slug for each in servers if each.on_host_network),
    )


def _left_out(part: str, why: str) -> MountPermission:
    return MountPermission(
        rule=f"left-out-{part}",
        title=f"Not done to engines here: {_PARTS.get(part, part)}",
        because=f"Docker on this box was tried with it, and refused: {why}",
        advice="Docker from its own packages instead of snap, or with the cgroup controller that "
        "it says is missing, does it. Restart inferdash on the box after that.",
    )


def _options(roots: list[MountFolder]) -> MountPermission:
    named = ", ".join(f"{each.path} ({' and '.join(each.lacks)} missing)" for each in roots)
    return MountPermission(
        rule="mount-options",
        title="Folders that profiles may mount are not on disks with nosuid and nodev",
        because=f"{named}. Engines mostly run as root: one can leave a program there that runs "
        "with root’s rights (setuid) for everybody with an account on this box, or a device.",
        advice="Mount them so, and write the options into /etc/fstab, too. A folder is mounted "
        "onto itself first. Engines that run keep what they have until they start again.",
        command=" && \\\n  ".join(_remount(each) for each in roots),
    )


def _remount(root: MountFolder) -> str:
    path = shlex.quote(root.path)
    if root.point == root.path:
        return f"sudo mount -o remount,nosuid,nodev {path}"
    return f"sudo mount --bind {path} {path} && sudo mount -o remount,bind,nosuid,nodev {path}"


def _lies_in(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)
