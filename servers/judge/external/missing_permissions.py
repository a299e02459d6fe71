"""Permissions that inferdash lacks on a box, each with the command that grants it."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class MissingPermission:
    """`command` is typed on the box, once; "" where no command grants it."""

    what: str
    why: str
    command: str = ""

    def to_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class WatcherRights:
    """What the watcher is, and what it was allowed."""

    user: str  # that it runs as
    is_root: bool
    is_in_container: bool  # it does not see the box's own processes
    docker_trouble: str = ""  # why Docker cannot be used, with what to do
    is_docker_refused: bool = False  # it is there, but this user may not use it


def unseen(
    standing: WatcherRights, sample: Mapping[str, Any] | None
) -> tuple[MissingPermission, ...]:
    """In the order in which people miss it. `sample` is the box's newest; None: there is none yet."""
    return (*_docker(standing), *_gpus(sample), *_processes(standing), *_kernel_log(sample))


def together(found: tuple[MissingPermission, ...]) -> str:
    """One command for all that have one; "" where fewer than two have."""
    commands = [each.command for each in found if each.command]
    return " && \\\n  ".join(commands) if len(commands) > 1 else ""


def _docker(standing: WatcherRights) -> Iterator[MissingPermission]:
    if standing.is_docker_refused:
        yield MissingPermission(
            what="Containers",
            why=f"{standing.user} may not use Docker. Its group may; log in anew after the "
            "command, and restart inferdash.",
            command=f"sudo usermod -aG docker {shlex.quote(standing.user)}",
        )
    elif standing.docker_trouble:
        yield MissingPermission(what="Containers", why=standing.docker_trouble)


def _gpus(sample: Mapping[str, Any] | None) -> Iterator[MissingPermission]:
    if sample is None:
        yield MissingPermission(what="GPUs", why="Their collector has not reported any yet.")
    elif sample.get("error_kind") not in (None, "no_library"):
        yield MissingPermission(
            what="GPUs", why=str(sample.get("error") or "NVIDIA's driver does not answer.")
        )


def _processes(standing: WatcherRights) -> Iterator[MissingPermission]:
    if standing.is_in_container:
        yield MissingPermission(
            what="Engines in no container, and whose process holds which memory",
            why="inferdash runs in a PID namespace of its own. Its watcher's container needs "
            "pid: host, which docker-compose.yml of inferdash says.",
        )
    elif not standing.is_root:
        yield MissingPermission(
            what="What other people's processes were started with, and ending them",
            why=f"inferdash runs as {standing.user}. Its own processes it reads and ends; for "
            "those of others it would have to run as root, which most boxes do well without.",
        )


def _kernel_log(sample: Mapping[str, Any] | None) -> Iterator[MissingPermission]:
    log = ((sample or {}).get("unseen") or {}).get("kernel_log")
    if log:
        grants = "may not be read" in log
        yield MissingPermission(
            what="The kernel's log: XID errors of GPUs, and whom it killed for lack of memory",
            why=str(log),
            command="sudo sysctl -w kernel.dmesg_restrict=0" if grants else "",
        )
