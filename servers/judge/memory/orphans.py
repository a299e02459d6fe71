"""Orphans of engines: processes, shared memory and containers that nobody needs.

Sizes are in bytes, times in seconds since 1970. Only what is proven to be an engine's of this
install can be ended or deleted from a page; the rest is shown, with a command for whoever knows.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, Self

from servers.host.docker.containers import Container
from servers.host.kernel.processes import WorkerProcess, is_worker
from servers.host.kernel.resources import SharedSegment
from servers.judge.messages import Sentence, say
from servers.launch import numbers

type Kind = Literal["process", "shm", "container"]

# A container's processes end a moment after Docker has said that it has.
PATIENCE = 15.0
# Shared memory is made by one process and then opened by another.
YOUNG = 60.0
_SMALL = 1 << 20
# Files that are no engine's are only worth a word when they are large.
_LARGE = 64 << 20
_MOST = 60

# What makes files of these names, by their beginnings.
MAKERS = {
    "sgl_shm_mm_": "memory.orphan-made-by-sglang",
    "vllm_offload_": "memory.orphan-made-by-vllm",
    "psm_": "memory.orphan-made-by-python",
    "torch_": "memory.orphan-made-by-pytorch",
    "nccl-": "memory.orphan-made-by-nccl",
    "sem.mp-": "memory.orphan-made-for-locks",
}
_RUNNING = ("running", "paused", "restarting")


@dataclass(frozen=True, kw_only=True)
class Orphan:
    key: str  # names it in an address; another process or file never gets the same
    kind: Kind
    what: str
    why: str  # it is an orphan
    code: str = ""  # of the message that begins `why`
    size: int | None = None  # None: not known
    size_of: str = "memory"
    since: float | None = None
    actions: tuple[str, ...] = ()  # kill, unlink, adopt, remove
    command: str = ""  # for whoever has a shell there, where there is no action
    pid: int = 0
    start: int = 0  # clock ticks after boot
    container: str = ""  # 64 digits
    server: str = ""  # the slug
    is_running: bool = False
    files: tuple[tuple[str, int], ...] = ()  # paths and inodes

    @property
    def moment(self) -> datetime | None:
        return datetime.fromtimestamp(self.since, UTC) if self.since is not None else None

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        files = tuple((path, inode) for path, inode in said.get("files", ()))
        return cls(**{**said, "actions": tuple(said.get("actions", ())), "files": files})

    def to_json(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in self.__dataclass_fields__}
        files = [list(each) for each in self.files]
        return said | {"actions": list(self.actions), "files": files}


@dataclass(frozen=True, kw_only=True)
class OwnContainer:
    """A container that a run of this install has, or had."""

    server: str  # the slug
    ended_at: float | None  # None: it was not seen to end
    is_there: bool = True  # Docker has it; otherwise only the database says that it was ours


@dataclass(frozen=True, kw_only=True)
class ContainerRecord:
    """What the database says of a container of ours."""

    server: str  # the slug, as its label says
    server_exists: bool  # on this box
    is_busy: bool  # that server has another active run
    has_run: bool  # a run knows the container
    is_active: bool  # and holds it, or is about to
    is_latest: bool  # of its server: the next start or a removal takes the container away
    is_read: bool  # the log is in the database


def processes(
    workers: Iterable[WorkerProcess],
    ours: Mapping[str, OwnContainer],
    running: Iterable[str],
    gpu: Mapping[int, int | None],
    *,
    now: float,
) -> Iterator[Orphan]:
    """Workers that have outlived their container or their engine.

    `ours` and `running` are by the containers' ids; `gpu` is what the driver says of each pid.
    A worker counts that is in a container of ours which has ended, or that was left to the
    box's first process; only the first kind is proven to be ours.
    """
    alive = set(running)
    for worker in workers:
        one = worker.process
        owner = ours.get(one.container or "")
        if one.container in alive:
            continue
        if owner is None and one.ppid != 1:
            continue
        if owner is not None and not owner.is_there and not is_worker(one):
            continue
        if owner is not None and owner.ended_at is not None and now - owner.ended_at < PATIENCE:
            continue
        if one.state[:1] in "ZX" and one.pid not in gpu:
            continue  # dead, and it holds nothing
        # The kernel cuts names off; engines write the whole one where the command line was.
        name = one.title[:80] if one.title.startswith(one.name) else one.name
        on_gpu = gpu.get(one.pid)
        left = Orphan(
            key=f"process-{one.pid}-{one.start}",
            kind="process",
            what=say("memory.orphan-of-process", pid=one.pid, name=name).text,
            why="",
            size=on_gpu if one.pid in gpu else worker.memory,
            size_of="GPU memory" if one.pid in gpu else "main memory",
            since=one.started_at,
            pid=one.pid,
            start=one.start,
            container=one.container or "",
            server=owner.server if owner else "",
        )
        yield _judge(left, worker, owner)


def _judge(left: Orphan, worker: WorkerProcess, owner: OwnContainer | None) -> Orphan:
    state = worker.process.state[:1]
    command = f"sudo kill {left.pid}"
    if owner is None:
        command = f"ps -o pid,ppid,user,lstart,args -p {left.pid}"
        return _explain(left, say("memory.orphan-process-unproven"), command=command)
    why = say("memory.orphan-process", server=owner.server)
    if state in "ZX":
        return _explain(left, why, say("memory.orphan-dead"))
    if state == "D":
        return _explain(left, why, say("memory.orphan-in-kernel"), command="sudo systemctl reboot")
    if not worker.may_end:
        return _explain(left, why, say("memory.orphan-not-mine"), command=command)
    return _explain(left, why, actions=("kill",))


def segments(found: Iterable[SharedSegment], *, now: float, sees_all: bool) -> Iterator[Orphan]:
    """Shared memory that no process maps or has open, many files of one maker as one.

    `sees_all` is false where not every process could be looked at: then nobody knows.
    """
    groups: dict[str, list[SharedSegment]] = {}
    for each in found:
        name = each.path.rpartition("/")[2]
        maker = next((begin for begin in MAKERS if name.startswith(begin)), "")
        if now - each.changed_at < YOUNG or (each.mapped and sees_all):
            continue
        if maker:
            groups.setdefault(maker, []).append(each)
        elif sees_all and each.bytes >= _LARGE:
            yield _file(each)
    for maker, members in groups.items():
        size = sum(each.bytes for each in members)
        if size >= _SMALL and (sees_all or size >= _LARGE):
            yield _group(maker, members, size, sees_all)


def _file(one: SharedSegment) -> Orphan:
    why = say("memory.orphan-file")
    return Orphan(
        key=f"shm-{one.inode}",
        kind="shm",
        what=one.path,
        why=why.text,
        code=why.code,
        size=one.bytes,
        size_of="shared memory",
        since=one.changed_at,
        command=f"rm {shlex.quote(one.path)}",
    )


def _group(maker: str, members: list[SharedSegment], size: int, sees_all: bool) -> Orphan:
    first = members[0].path
    paths = f"/dev/shm/{maker}*"  # noqa: S108
    what = first
    if len(members) > 1:
        what = say("memory.orphan-of-files", count=len(members), paths=paths).text
    left = Orphan(
        key=f"shm-{re.sub('[^a-z0-9]', '', maker)}",
        kind="shm",
        what=what,
        why="",
        size=size,
        size_of="shared memory",
        since=min(each.changed_at for each in members),
        files=tuple((each.path, each.inode) for each in members),
    )
    command = f"""sudo sh -c 'for f in {paths}; do fuser -s "$f" || rm -v "$f"; done'"""
    made_by = say(MAKERS[maker]).text
    if not sees_all:
        return _explain(left, say("memory.orphan-files-unknown", maker=made_by), command=command)
    why = say("memory.orphan-files", maker=made_by)
    if not all(each.may_delete for each in members):
        return _explain(left, why, say("memory.orphan-files-not-mine"), command=command)
    return _explain(left, why, actions=("unlink",))


def containers(found: Iterable[tuple[Container, ContainerRecord]]) -> Iterator[Orphan]:
    """Containers of this install that no run holds and nobody will take away."""
    for one, known in found:
        is_running = one.state in _RUNNING
        if known.is_active or (known.is_latest and not is_running):
            continue
        moment = (one.started_at if is_running else one.finished_at) or one.started_at
        left = Orphan(
            key=f"container-{one.id[:12]}",
            kind="container",
            what=say("memory.orphan-of-container", name=one.name).text,
            why="",
            size_of="disk",
            since=numbers.to_timestamp(moment),
            container=one.id,
            server=known.server,
            is_running=is_running,
        )
        yield _of_container(left, known)


def _of_container(left: Orphan, known: ContainerRecord) -> Orphan:
    if not left.is_running:
        if not known.has_run:
            why = say("memory.orphan-container-unknown")
        elif not known.is_read:
            return _explain(left, say("memory.orphan-container-log"))
        else:
            why = say("memory.orphan-container-earlier", server=known.server)
        return _explain(left, why, actions=("remove",))
    why = say("memory.orphan-runs-on" if known.has_run else "memory.orphan-runs-unknown")
    if not known.server_exists:
        no_server = say("memory.orphan-no-server", server=known.server)
        return _explain(left, why, no_server, actions=("remove",))
    if known.is_busy:
        busy = say("memory.orphan-server-busy", server=known.server)
        return _explain(left, why, busy, actions=("remove",))
    return _explain(left, why, actions=("adopt", "remove"))


def _explain(
    left: Orphan, *why: Sentence, actions: tuple[str, ...] = (), command: str = ""
) -> Orphan:
    text = " ".join(each.text for each in why)
    return replace(left, why=text, code=why[0].code, actions=actions, command=command)


def order_orphans(found: Iterable[Orphan]) -> list[Orphan]:
    """The largest first; containers last. At most 60."""
    kinds = {"process": 0, "shm": 1, "container": 2}
    return sorted(found, key=lambda each: (kinds[each.kind], -(each.size or 0), each.key))[:_MOST]
