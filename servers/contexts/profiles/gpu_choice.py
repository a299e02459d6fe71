"""The choice of GPUs in the profile form: a box's cards, who is on them, and what is chosen."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.memory import holders
from servers.judge.memory.holders import GpuMemory
from servers.launch.engines import placement
from servers.models import Box, Claim, Run


@dataclass(frozen=True, kw_only=True)
class GpuTile:
    index: int
    name: str
    total: int | None
    free: int | None  # None: not known
    used_percent: int
    servers: tuple[str, ...]  # on it now, or about to be
    claim: Claim | None
    is_chosen: bool

    @property
    def is_idle(self) -> bool:
        return not self.servers and self.claim is None


@dataclass(frozen=True, kw_only=True)
class GpuKind:
    """So many cards of one kind, whichever are free at the start."""

    value: str
    words: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True)
class GpuChoice:
    box: Box
    tiles: tuple[GpuTile, ...]
    kinds: tuple[GpuKind, ...]
    text: str

    @property
    def idle(self) -> str:
        """The indices of the cards that nobody uses."""
        return ",".join(str(each.index) for each in self.tiles if each.is_idle)

    @property
    def is_by_hand(self) -> bool:
        """Whether tiles cannot say what is written."""
        if not self.text or self.text == "none" or any(each.is_chosen for each in self.kinds):
            return False
        there, named = {each.index for each in self.tiles}, self.box.indices(self.text)
        return named is None or not named <= there


def describe_gpus(box: Box, text: str, sample: Mapping[str, Any] | None) -> GpuChoice | None:
    """None where the box's cards are not known yet, or it has none. `sample` is the box's newest."""
    cards = box.gpus
    if not cards:
        return None
    text = text.strip()
    now = {each.index: each for each in holders.gpus(sample or {}, {})}
    users = _list_users(box)
    claims = {index: claim for claim in box.current_claims for index in claim.gpus}
    chosen = box.indices(text) or frozenset()
    return GpuChoice(
        box=box,
        text=text,
        kinds=_list_kinds([str(card["name"] or "") for card in cards], text),
        tiles=tuple(
            _build_tile(
                index=card["index"],
                name=str(card["name"] or "unnamed GPU").removeprefix("NVIDIA "),
                total=card.get("total"),
                now=now.get(card["index"]),
                servers=users.get(card["index"], ()),
                claim=claims.get(card["index"]),
                is_chosen=card["index"] in chosen,
            )
            for card in cards
        ),
    )


def _build_tile(
    *,
    index: int,
    name: str,
    total: int | None,
    now: GpuMemory | None,
    servers: tuple[str, ...],
    claim: Claim | None,
    is_chosen: bool,
) -> GpuTile:
    free = now.free if now else None
    if now and now.is_unified and now.ledger:
        # Page cache makes room for whoever asks.
        free = now.ledger.available
    total = now.total if now and now.total else total
    return GpuTile(
        index=index,
        name=name,
        total=total,
        free=free,
        used_percent=round(100 * (total - free) / total) if total and free is not None else 0,
        servers=servers,
        claim=claim,
        is_chosen=is_chosen,
    )


def _list_users(box: Box) -> dict[int, tuple[str, ...]]:
    """The servers of a box by the GPUs that they have."""
    found: dict[int, tuple[str, ...]] = {}
    runs = Run.objects.active().filter(server__box=box).select_related("server", "version")
    for run in runs:
        for index in box.indices(run.gpus or run.version.launch.gpus) or ():
            found[index] = (*found.get(index, ()), run.server.slug)
    return found


def _list_kinds(names: list[str], text: str) -> tuple[GpuKind, ...]:
    counts = Counter(name.removeprefix("NVIDIA ") for name in names if name)
    # Where all are of one kind, its name would be said eight times.
    known = {
        f"{n}x {name}": f"any {n}" if len(counts) == 1 else f"any {n}x {name}"
        for name, most in counts.items()
        for n in range(1, most + 1)
    }
    if text not in known and placement.parse_gpu_requirement(text):
        known = {text: f"any {text}", **known}
    return tuple(
        GpuKind(value=value, words=words, is_chosen=value == text) for value, words in known.items()
    )
