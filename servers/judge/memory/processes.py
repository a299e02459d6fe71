"""The processes of a sample as pages name them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from servers.judge.memory.pools import held_by_pid


@dataclass(frozen=True, kw_only=True)
class MemoryHolder:
    """A process that holds memory of a pool. None: not told by the driver, or by the kernel."""

    pid: int
    name: str
    title: str
    user: str
    state: str  # as the kernel writes it; "gone" for one that only the driver still lists
    container: str  # 64 digits; "" where it runs in none
    server: str  # the slug of the server whose container it runs in; else ""
    started_at: datetime | None
    used: int | None  # bytes of the GPU's
    own: int | None = None  # bytes outside the GPU, where both are one pool

    @property
    def size(self) -> int:
        """All that is known of it, in bytes."""
        return (self.used or 0) + (self.own or 0)


def on_card(
    card: Mapping[str, Any], sample: Mapping[str, Any], servers: Mapping[str, str]
) -> tuple[MemoryHolder, ...] | None:
    """The clients of a card, the largest first; None where the driver does not list them.

    `servers` maps container ids to the slugs of their servers.
    """
    if card.get("processes") is None:
        return None
    known = {process["pid"]: process for process in sample.get("processes") or []}
    has_one_pool = card.get("kind") == "unified"
    found = [
        _holder(pid, known.get(pid), servers, used=used, has_one_pool=has_one_pool)
        for pid, used in held_by_pid(card).items()
    ]
    return tuple(sorted(found, key=_by_size))


def beside_gpus(
    sample: Mapping[str, Any], servers: Mapping[str, str], *, besides: frozenset[int]
) -> tuple[MemoryHolder, ...]:
    """The largest programs of the box that are on no GPU, as far as the collector lists them."""
    found = [
        _holder(each["pid"], each, servers, used=0, has_one_pool=True)
        for each in sample.get("programs") or []
        if each["pid"] not in besides
    ]
    return tuple(sorted(found, key=_by_size))


def _by_size(holder: MemoryHolder) -> tuple[int, int]:
    return -holder.size, holder.pid


def _holder(
    pid: int,
    process: Mapping[str, Any] | None,
    servers: Mapping[str, str],
    *,
    used: int | None,
    has_one_pool: bool,
) -> MemoryHolder:
    known = process or {}
    started_at = known.get("started_at")
    return MemoryHolder(
        pid=pid,
        name=known.get("name") or "unknown process",
        title=known.get("title") or "",
        user=known.get("user") or "",
        state=(known.get("state") or "") if process is not None else "gone",
        container=known.get("container") or "",
        server=servers.get(known.get("container") or "", ""),
        started_at=None if started_at is None else datetime.fromtimestamp(started_at, UTC),
        used=used,
        own=known.get("own") if has_one_pool else None,
    )
