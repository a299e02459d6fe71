"""The page context of models: what lies on the boxes' disks, and how full those are."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from servers.contexts.lists import Choice, DiskUse
from servers.judge.weights import checkpoints as judge
from servers.lifecycle.weights import deletion, inventory
from servers.lifecycle.weights.inventory import ModelUse
from servers.models import Box, HostResources, Job, ModelInventory, StoredCheckpoint, User


@dataclass(frozen=True, kw_only=True)
class CheckpointRow:
    stored: StoredCheckpoint
    uses: list[ModelUse]
    copies: list[StoredCheckpoint]  # the same weights elsewhere on this box
    room: judge.WeightsFit | None

    @property
    def quantization(self) -> str:
        return judge.quantization(self.stored.config)

    @property
    def context(self) -> int | None:
        return judge.context(self.stored.config)

    @property
    def architecture(self) -> str:
        return judge.architecture(self.stored.config)

    @property
    def is_running(self) -> bool:
        return any(use.is_running for use in self.uses)

    @property
    def last_used(self) -> datetime | None:
        return max((use.last_started for use in self.uses if use.last_started), default=None)


@dataclass(frozen=True, kw_only=True)
class BoxModels:
    """What is known of the disks of one box."""

    box: Box
    inventory: ModelInventory | None
    size: int  # bytes of all its models
    count: int
    disks: list[DiskUse]
    deletions: list[Job]  # that go on, or were refused

    @property
    def told_roots(self) -> list[dict[str, Any]]:
        """Without the usual folders that this box happens not to have."""
        known = self.inventory.roots if self.inventory else []
        return [each for each in known if not (each["is_usual"] and each["absent"])]

    @property
    def hidden(self) -> list[str]:
        return [path for each in self.told_roots for path in each["hidden"]]


STATES: dict[str, tuple[str, Callable[[CheckpointRow], bool]]] = {
    "": ("All", lambda _row: True),
    "partial": ("Incomplete", lambda row: row.stored.state == "partial"),
    "without weights": ("Without weights", lambda row: row.stored.state == "without weights"),
    "unused": ("In no profile", lambda row: not row.uses),
    "twice": ("Duplicates", lambda row: bool(row.copies)),
}


def build_rows(box: Box, person: User) -> list[CheckpointRow]:
    """Those of a box, by name."""
    every = list(box.checkpoints.select_related("box").defer("texts"))
    used = inventory.uses(box, person)
    same: dict[str, list[StoredCheckpoint]] = defaultdict(list)
    for each in every:
        same[each.fingerprint].append(each)
    return [
        CheckpointRow(
            stored=each,
            uses=used.get(each.pk, []),
            copies=[it for it in same[each.fingerprint] if each.fingerprint and it.pk != each.pk],
            room=judge.room(each.weights, box.gpus),
        )
        for each in every
    ]


def choose(rows: Iterable[CheckpointRow], text: str) -> list[CheckpointRow]:
    """Those in whose name or path each of the words stands."""
    words = text.casefold().split()
    return [
        row
        for row in rows
        if all(word in f"{row.stored.name} {row.stored.path}".casefold() for word in words)
    ]


def list_choices(rows: list[CheckpointRow]) -> list[Choice]:
    """All of them, and the kinds of which there are some."""
    counts = Counter(key for row in rows for key, (_w, is_it) in STATES.items() if is_it(row))
    return [
        Choice(key=key, words=words, count=counts[key])
        for key, (words, _is_it) in STATES.items()
        if counts[key] or not key
    ]


def describe_box(
    box: Box,
    seen: ModelInventory | None,
    resources: HostResources | None,
    rows: list[CheckpointRow],
) -> BoxModels:
    return BoxModels(
        box=box,
        inventory=seen,
        size=sum(row.stored.size for row in rows),
        count=len(rows),
        disks=_list_disks(seen, resources, rows),
        deletions=list(deletion.list_deletions(box)),
    )


def _list_disks(
    seen: ModelInventory | None, resources: HostResources | None, rows: list[CheckpointRow]
) -> list[DiskUse]:
    """Those with models, as of the last scan; the one of the cache as it is now."""
    found: dict[int, dict[str, Any]] = {}
    folders: list[tuple[str, int]] = []
    for root in seen.roots if seen else []:
        disk = root.get("disk")
        if disk and not root["absent"]:
            found.setdefault(disk["device"], {"path": root["path"], **disk})
            folders.append((root["path"], disk["device"]))
    cache = (resources.found.get("disks") or {}).get("cache") if resources else None
    if cache:
        known = found.setdefault(cache["device"], cache)
        known |= {"free": cache["free"], "total": cache["total"]}
        folders.append((cache["path"], cache["device"]))
    sizes = _add_up(rows, folders)
    has_models = [each for device, each in found.items() if sizes[device] or len(found) == 1]
    return [
        DiskUse(
            path=each["path"], total=each["total"], free=each["free"], known=sizes[each["device"]]
        )
        for each in has_models or found.values()
    ]


def _add_up(rows: list[CheckpointRow], folders: list[tuple[str, int]]) -> Counter[int]:
    """Bytes of models by device; each counts to the nearest folder above it."""
    sizes: Counter[int] = Counter()
    nearest = sorted(folders, key=lambda each: -len(each[0]))
    for row in rows:
        path = row.stored.path
        for folder, device in nearest:
            if path == folder or path.startswith(f"{folder.rstrip('/')}/"):
                sizes[device] += row.stored.size
                break
    return sizes
