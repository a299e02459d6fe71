"""Permissions that inferdash lacks on a box, each with the command that grants it."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from servers.judge.messages import Sentence, say


@dataclass(frozen=True, kw_only=True)
class MissingPermission:
    """`command` is typed on the box, once; "" where no command grants it."""

    what: str
    why: str
    command: str = ""
    code: str = ""  # of its message

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
        yield _explain(
            say("external.unseen-docker-refused", user=standing.user),
            f"sudo usermod -aG docker {shlex.quote(standing.user)}",
        )
    elif standing.docker_trouble:
        yield _explain(say("external.unseen-docker", trouble=standing.docker_trouble))


def _gpus(sample: Mapping[str, Any] | None) -> Iterator[MissingPermission]:
    if sample is None:
        yield _explain(say("external.unseen-gpus-so-far"))
    elif sample.get("error_kind") not in (None, "no_library"):
        error = sample.get("error") or say("external.unseen-driver").text
        yield _explain(say("external.unseen-gpus", error=error))


def _processes(standing: WatcherRights) -> Iterator[MissingPermission]:
    if standing.is_in_container:
        yield _explain(say("external.unseen-processes"))
    elif not standing.is_root:
        yield _explain(say("external.unseen-other-users", user=standing.user))


def _kernel_log(sample: Mapping[str, Any] | None) -> Iterator[MissingPermission]:
    log = ((sample or {}).get("unseen") or {}).get("kernel_log")
    if log:
        grants = "may not be read" in log
        said = say("external.unseen-kernel-log", log=log)
        yield _explain(said, "sudo sysctl -w kernel.dmesg_restrict=0" if grants else "")


def _explain(said: Sentence, command: str = "") -> MissingPermission:
    return MissingPermission(what=said.title, why=said.text, command=command, code=said.code)
