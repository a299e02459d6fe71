"""Owners of a GPU's memory: servers, and beside them containers and accounts with what they run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from servers.judge.memory.holders import GpuMemory
from servers.judge.memory.ledger import PoolPart
from servers.judge.memory.ledger_words import MemoryHolder

# A desktop's window manager is on every card, and nobody asks about it.
SMALL = 2**29  # bytes

# Programs that run another one, which says more: `python3 -m vllm.…`, `torchrun train.py`.
_RUNNERS = ("python", "torchrun", "accelerate", "uv", "uvx", "bash", "sh", "sudo", "env", "nohup")
_VERBS = ("launch", "run", "exec")


type OwnerKind = Literal["server", "ended", "container", "account"]


@dataclass(frozen=True, kw_only=True)
class GpuOwner:
    kind: OwnerKind
    name: str  # a server's slug, also of one that has ended; a container, an account
    command: str = ""  # what it runs: "train.py"
    since: datetime | None = None
    size: int = 0  # bytes
    tone: int = 0  # the shade of a server's part of the bar
    is_loading: bool = False  # a server that has the GPU, and no memory of it yet

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.name}-{self.command}"


def list_owners(
    gpu: GpuMemory, containers: Mapping[str, str], ended: Mapping[str, str]
) -> tuple[GpuOwner, ...]:
    """`containers` maps ids of external ones to names, `ended` those of ended runs to slugs."""
    if gpu.ledger is None:
        return ()
    found: dict[str, GpuOwner] = {}
    for part in gpu.ledger.parts:
        if part.kind == "server" or (part.kind == "process" and _counts(part)):
            owner = _of_part(part, containers, ended)
            found[owner.key] = _join(found[owner.key], owner) if owner.key in found else owner
    return tuple(sorted(found.values(), key=lambda each: (-each.size, each.key)))


def _counts(part: PoolPart) -> bool:
    return part.size >= SMALL or not part.told


def _of_part(part: PoolPart, containers: Mapping[str, str], ended: Mapping[str, str]) -> GpuOwner:
    since = min((each.started_at for each in part.holders if each.started_at), default=None)
    if part.kind == "server":
        return GpuOwner(kind="server", name=part.name, since=since, size=part.size, tone=part.tone)
    holder = part.holders[0]
    command = describe_command(holder)
    kind: OwnerKind = "account"
    name = holder.user
    if holder.container in ended:
        kind, name = "ended", ended[holder.container]
    elif containers.get(holder.container):
        kind, name = "container", containers[holder.container]
    if not name:
        name, command = command, ""
    return GpuOwner(kind=kind, name=name, command=command, since=since, size=part.size)


def _join(one: GpuOwner, other: GpuOwner) -> GpuOwner:
    moments = [each.since for each in (one, other) if each.since is not None]
    return GpuOwner(
        kind=one.kind,
        name=one.name,
        command=one.command,
        since=min(moments, default=None),
        size=one.size + other.size,
        tone=one.tone,
    )


def describe_command(holder: MemoryHolder) -> str:
    """ "train.py" of `python3 train.py --rank 64`; the program's name where it says most."""
    words = list(_drop_runners(holder.title.split()))
    if not words:
        return holder.name
    return words[0].rstrip(":").rpartition("/")[2] or holder.name


def _drop_runners(words: list[str]) -> Iterator[str]:
    """The command from the program on that the runners before it start."""
    place = 0
    while place < len(words) and _is_runner(words[place]):
        place += 1
        while place < len(words) and (words[place].startswith("-") or words[place] in _VERBS):
            if words[place] == "-c":
                return
            place += 1
    yield from words[place:]


def _is_runner(word: str) -> bool:
    program = word.rpartition("/")[2]
    return program.startswith(_RUNNERS[0]) or program in _RUNNERS[1:]
