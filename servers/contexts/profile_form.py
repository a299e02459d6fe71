"""The page context of the profile form: the choice of GPUs, and the summary of an import."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.memory import holders
from servers.judge.memory.holders import GpuMemory
from servers.launch.commandline.draft import Draft
from servers.launch.commandline.import_notes import ImportNote
from servers.launch.commandline.tokens import LaunchCommand
from servers.launch.engines import placement
from servers.launch.engines.change import split_flags
from servers.launch.engines.launch import Launch
from servers.launch.recipes.document import Document
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
            GpuTile(
                index=card["index"],
                name=str(card["name"] or "unnamed GPU").removeprefix("NVIDIA "),
                servers=users.get(card["index"], ()),
                claim=claims.get(card["index"]),
                is_chosen=card["index"] in chosen,
                **_measure(now.get(card["index"]), card.get("total")),
            )
            for card in cards
        ),
    )


def _measure(now: GpuMemory | None, total: int | None) -> dict[str, Any]:
    """What a tile says of a card's memory."""
    free = now.free if now else None
    if now and now.is_unified and now.ledger:
        # Page cache makes room for whoever asks.
        free = now.ledger.available
    total = now.total if now and now.total else total
    used = round(100 * (total - free) / total) if total and free is not None else 0
    return {"total": total, "free": free, "used_percent": used}


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


# Of a remark's kind, in the order in which a person should read them. What is otherwise than in the
# paste, be it changed or left out, is one list.
HEADINGS = {
    "unresolved": "To fill in",
    "trusts": "Security review",
    "assumed": "Import notes",
    "ignored": "Import notes",
}
_KINDS = {"docker_run": "docker run", "compose": "compose service", "engine_command": ""}
_LISTS = ("env", "env_file", "volumes", "ports", "ulimits", "cap_add", "devices", "security_opt")
_SINGLE = (
    *("image", "entrypoint", "ipc", "shm_size", "gpus", "runtime", "network", "privileged"),
    *("name", "restart", "cpuset", "user", "workdir", "init"),
)


@dataclass(frozen=True, kw_only=True)
class ImportSummary:
    source: str  # "docker run … vllm/vllm-openai:v0.24.0"
    read: int
    changed: int
    left_out: int
    notes: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def has_open(self) -> bool:
        """Whether the paste leaves something for a person to fill in."""
        return any(heading == HEADINGS["unresolved"] for heading, _says in self.notes)

    @property
    def counts(self) -> str:
        said = [f"{self.read} option{'s' if self.read != 1 else ''} read"]
        if self.changed:
            said.append(f"{self.changed} changed")
        said.append(f"{self.left_out} left out" if self.left_out else "nothing lost")
        return ", ".join(said)


def summarise_draft(
    command: LaunchCommand, made: Draft, further: Iterable[ImportNote]
) -> ImportSummary:
    remarks = (*made.remarks, *further)
    said: dict[str, tuple[str, ...]] = {}
    for kind, heading in HEADINGS.items():
        says = tuple(each.says for each in remarks if each.kind == kind)
        said[heading] = (*said.get(heading, ()), *says)
    begins = _KINDS[command.kind] or " ".join(command.command[:1]).rpartition("/")[2]
    ends = command.image or made.launch.checkpoint
    options = sum(len(getattr(command, name)) for name in _LISTS)
    options += sum(bool(getattr(command, name)) for name in _SINGLE)
    return ImportSummary(
        source=f"{begins} … {ends}" if ends else begins,
        read=options + _count_flags(made.launch) + bool(made.launch.checkpoint),
        changed=sum(each.kind == "assumed" for each in remarks),
        left_out=sum(each.kind == "ignored" for each in remarks),
        notes=tuple((heading, lines) for heading, lines in said.items() if lines),
    )


def summarise_document(found: Document) -> ImportSummary:
    return ImportSummary(
        source=found.name,
        read=len(found.launch.to_json()) - bool(found.launch.flags) + _count_flags(found.launch),
        changed=0,
        left_out=0,
        notes=(),
    )


def _count_flags(launch: Launch) -> int:
    return len(split_flags(launch.flags))
