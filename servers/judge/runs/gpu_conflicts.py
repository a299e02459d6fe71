"""GPU conflicts: what is in the way of a start, on its GPUs or in the shared pool.

Sizes are in bytes. On a card of its own "taken" means the card; on memory that GPU and machine
share it means the bytes that a start lacks, and that somebody else is loading into it.

Never one that a person has started, that is somebody else's, or that serves; of the others the one
first that was asked nothing for longest. Sizes are in bytes, times are aware.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from servers.judge.memory.pools import Pool as MemoryPool
from servers.judge.memory.pools import PoolProcess, pools
from servers.judge.messages import Sentence, say

GIB = 2**30
# What an engine keeps of a card that it was given and does not use.
LITTLE = GIB // 2
# Other people's programs below that are desktops, monitors, and the like.
PROGRAM = GIB
_NAMED = 3  # holders in one sentence
_TITLE = 40  # characters of a program's command line

# "coming": about to load. "ahead": waits since longer. "returning": its memory is on its way back.
type Kind = Literal["loading", "server", "coming", "ahead", "planned", "returning", "process"]
# "asked": nobody has started it yet. "told": to wait until its GPUs are free. "auto": inferdash
# starts it again by itself. "plain": somebody wanted it at once.
type Patience = Literal["asked", "told", "auto", "plain"]

_LOADING = ("creating", "starting")
_THERE = ("ready", "stopping")


@dataclass(frozen=True, kw_only=True)
class OtherRun:
    """A run that is active, or planned, or whose memory is on its way back."""

    run: int
    name: str  # of its server
    by: str  # who started it; "" where nobody knows any more
    since: datetime  # the click
    state: str  # of the run; "planned", "returning"
    gpus: frozenset[int] | None  # None: not known which
    container: str = ""
    waits: bool = False  # it was told to wait
    last_request_at: datetime | None = None
    requests_running: int | None = None
    ready_at: datetime | None = None
    took: timedelta | None = None  # to become ready
    is_watched: bool = False  # somebody else's, which inferdash stops for nobody


@dataclass(frozen=True, kw_only=True)
class GpuHolder:
    kind: Kind
    name: str
    by: str = ""  # who started it; the user of a process
    other: OtherRun | None = None  # None: a process that is none of ours
    held: int | None = None  # on the GPUs in question; None: not known

    @property
    def is_ours(self) -> bool:
        return self.other is not None

    @property
    def may_be_stopped(self) -> bool:
        is_theirs = self.other is not None and self.other.is_watched
        return self.kind in ("loading", "server", "coming") and not is_theirs

    def __str__(self) -> str:
        return f"{self.name} ({self.by})" if self.by else self.name


@dataclass(frozen=True, kw_only=True)
class GpuRequest:
    """A start, and what it needs. `gpus`: None where that is not known."""

    patience: Patience
    gpus: frozenset[int] | None
    is_unified: bool = False
    # Beside everything that is there now; None: not known.
    fits: bool | None = None
    # Whether it is known to lack some now, and how much of a shared pool as far as is known.
    is_short: bool = False
    missing: int = 0
    since: tuple[datetime, int] | None = None  # click and number of its run; None: the last


@dataclass(frozen=True, kw_only=True)
class GpuConflict:
    start: GpuRequest
    holders: tuple[GpuHolder, ...]

    @property
    def where(self) -> str:
        """ "GPU 3", "GPUs 0-3", "the memory that GPU and machine share"."""
        if self.start.is_unified:
            return say("runs.shared-memory").text
        gpus = self.start.gpus or frozenset()
        code = "runs.one-gpu"
        return say(code if len(gpus) == 1 else "runs.several-gpus", indices=ranges(gpus)).text

    @property
    def is_loading(self) -> bool:
        return any(holder.kind == "loading" for holder in self.holders)

    @property
    def has_ready(self) -> bool:
        """Whether one of them answers requests, which may end first."""
        return any(holder.kind == "server" for holder in self.holders)

    @property
    def runs(self) -> list[int]:
        return [holder.other.run for holder in self.holders if holder.other is not None]

    def sentence(self) -> str:
        """For what a start waits; "" when for nothing."""
        said = self._describe()
        return said.text if said else ""

    @property
    def code(self) -> str:
        """Of the message of sentence(); "" when there is none."""
        said = self._describe()
        return said.code if said else ""

    def _describe(self) -> Sentence | None:
        if not self.holders:
            return None
        names, where, many = self.names, self.where, len(self.holders) > 1
        is_or_are, has_or_have = ("are", "have") if many else ("is", "has")
        match self._only_kind:
            case "loading":
                return say("runs.waits-for-loading", names=names, is_or_are=is_or_are)
            case "behind":
                return say("runs.waits-behind", where=where, names=names, is_or_are=is_or_are)
            case "returning":
                return say("runs.waits-for-release", names=names)
            case _ if self.start.is_unified:
                known = {"where": where, "names": names, "has_or_have": has_or_have}
                if not self.start.missing:
                    return say("runs.waits-for-shared-memory", **known)
                return say("runs.waits-for-more-shared-memory", **known, gib=self._gib)
        return say("runs.waits-for-gpus", where=where, names=names)

    def why(self) -> str:
        """The same at the end of the wait, to go on after a colon."""
        names, many = self.names, len(self.holders) > 1
        is_or_are, has_or_have = ("are", "have") if many else ("is", "has")
        known = {"where": self.where, "names": names, "has_or_have": has_or_have}
        match self._only_kind:
            case "loading":
                said = say("runs.waited-for-loading", names=names, is_or_are=is_or_are)
            case "behind":
                said = say("runs.waited-behind", names=names, is_or_are=is_or_are)
            case "returning":
                said = say("runs.waited-for-release", names=names)
            case _ if self.start.is_unified and self.start.missing:
                said = say("runs.waited-for-more-shared-memory", **known, gib=self._gib)
            case _ if self.start.is_unified:
                said = say("runs.waited-for-shared-memory", **known)
            case _:
                said = say("runs.waited-for-gpus", **known)
        return said.text

    @property
    def names(self) -> str:
        return _join_names([str(holder) for holder in self.holders])

    @property
    def _only_kind(self) -> str:
        kinds = {holder.kind for holder in self.holders}
        if kinds and kinds <= {"coming", "ahead", "planned"}:
            return "behind"
        return kinds.pop() if len(kinds) == 1 else ""

    @property
    def _gib(self) -> float:
        return self.start.missing / GIB


def find_conflict(
    start: GpuRequest, others: Sequence[OtherRun], sample: Mapping[str, Any] | None
) -> GpuConflict:
    """Who is in the way of the start, who holds most of it first. `others` are all but itself.

    Nobody is where it is not known which GPUs it gets. A ready server that was given a card and
    holds nothing of it is not in its way, nor is anybody whom it fits beside.
    """
    if start.gpus is None or not start.gpus:
        return GpuConflict(start=start, holders=())
    found = [*_runs(start, others, sample)]
    if start.patience in ("asked", "told"):
        found += _processes(start, others, sample)
    order = ("loading", "server", "process", "returning", "planned", "coming", "ahead")
    found.sort(key=lambda each: (order.index(each.kind), -(each.held or 0)))
    return GpuConflict(start=start, holders=tuple(found))


def _runs(
    start: GpuRequest, others: Sequence[OtherRun], sample: Mapping[str, Any] | None
) -> Iterator[GpuHolder]:
    for other in others:
        if not _shares(start, other):
            continue
        kind = _kind(start, other)
        if kind is None:
            continue
        held = _sum_held(sample, other.container, start.gpus or ()) if other.container else None
        if kind == "server" and held is not None and held < LITTLE:
            continue
        yield GpuHolder(kind=kind, name=other.name, by=other.by, other=other, held=held)


def _shares(start: GpuRequest, other: OtherRun) -> bool:
    if other.gpus is None or (start.is_unified and other.gpus):
        return True
    return bool((start.gpus or frozenset()) & other.gpus)


def _kind(start: GpuRequest, other: OtherRun) -> Kind | None:
    """In which way it is in the start's; None: it is not."""
    is_patient = start.patience in ("asked", "told")
    if other.state in _LOADING:
        # Who wants a card at once was asked about what is on it.
        return "loading" if start.patience != "plain" or start.is_unified else None
    if other.state in _THERE:
        # inferdash tries again what ran beside others before, unless it would be refused now.
        is_known = start.is_unified or start.patience == "auto"
        is_short = start.is_short if is_known else start.fits is not True
        return "server" if start.patience != "plain" and is_short else None
    if other.state == "planned":
        return "planned" if is_patient else None
    if other.state == "returning":
        return "returning" if start.patience == "told" else None
    is_ahead = start.since is None or (other.since, other.run) < start.since
    if other.waits:
        return "ahead" if is_patient and is_ahead else None
    if is_patient:
        return "coming"
    return "coming" if is_ahead and (start.is_unified or start.patience == "auto") else None


def _sum_held(
    sample: Mapping[str, Any] | None, container: str, gpus: Collection[int]
) -> int | None:
    """Bytes that processes of a container have of these cards; None where nobody can tell."""
    if sample is None or sample.get("stale_s") is not None:
        return None
    whose = {each["pid"]: each.get("container") for each in sample.get("processes") or []}
    size = 0
    for card in sample.get("gpus") or []:
        if card["index"] not in gpus:
            continue
        if card.get("processes") is None:
            return None
        for each in card["processes"]:
            if not sample.get("sees_host_pids") and not whose.get(each["pid"]):
                return None
            if whose.get(each["pid"]) == container:
                if each.get("used") is None:
                    return None
                size += each["used"]
    return size


def _processes(
    start: GpuRequest, others: Sequence[OtherRun], sample: Mapping[str, Any] | None
) -> Iterator[GpuHolder]:
    """Programs on its GPUs that are none of these runs'."""
    if sample is None or sample.get("stale_s") is not None:
        return
    if start.fits is True or (start.is_unified and not start.is_short):
        return
    uuids = {
        card.get("uuid") for card in sample.get("gpus") or [] if card["index"] in (start.gpus or ())
    }
    ours = {other.container for other in others if other.container}
    users = {each["pid"]: each.get("user") or "" for each in sample.get("processes") or []}
    found: dict[int, tuple[PoolProcess, int]] = {}
    for pool in pools(sample):
        if not isinstance(pool, MemoryPool) or pool.gpu not in uuids:
            continue
        for client in pool.clients:
            is_other = client.container not in ours or not client.container
            if is_other and client.is_known and not client.is_desktop:
                before = found.get(client.pid, (client, 0))[1]
                found[client.pid] = (client, before + (client.used or 0))
    for pid, (client, size) in found.items():
        if size >= PROGRAM:
            title = client.name[:_TITLE].strip()
            said = (
                say("runs.process", pid=pid, name=title)
                if title
                else say("runs.process-without-name", pid=pid)
            )
            name = said.text
            yield GpuHolder(kind="process", name=name, by=users.get(pid, ""), held=size)


def ranges(gpus: Collection[int]) -> str:
    """Indices for people: "0-3, 6"."""
    found: list[list[int]] = []
    for index in sorted(gpus):
        if found and found[-1][-1] == index - 1:
            found[-1].append(index)
        else:
            found.append([index])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in found)


def _join_names(names: Sequence[str]) -> str:
    shown = list(names[:_NAMED])
    if len(names) > _NAMED:
        shown.append(say("runs.more-names", count=len(names) - _NAMED).text)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


# Who has just become ready still waits for the request that it was started for.
FRESH = timedelta(seconds=30)


@dataclass(frozen=True, kw_only=True)
class OnDemandRun:
    """A run that a request has started, or that is told to stop."""

    run: int
    ready_at: datetime | None  # None: it is not ready, or not any more
    last_request_at: datetime | None
    requests_running: int | None  # None: the engine does not say
    is_passing: bool = False  # the gateway is passing a request on to it

    def idle_since(self, now: datetime) -> datetime | None:
        """Since when nobody has asked it anything; None: it serves, or is about to."""
        if self.ready_at is None or self.requests_running or self.is_passing:
            return None
        if now - self.ready_at < FRESH and self.last_request_at is None:
            return None
        return max(self.last_request_at or self.ready_at, self.ready_at)


@dataclass(frozen=True, kw_only=True)
class IdleEviction:
    """What a start on request does about who is in its way."""

    stops: tuple[int, ...]  # runs, in this order
    in_the_way: tuple[GpuHolder, ...]  # of whom nobody knows that they will go away


def make_room(
    found: GpuConflict, served: Collection[OnDemandRun], *, lacking: int, now: datetime
) -> IdleEviction:
    """Whom to stop for a start that lacks so many bytes on all its GPUs together; 0: not known how
    many, then all that may be stopped are.

    Whoever loads, waits or serves a request is waited for. Measured memory decides how many are
    stopped: one whose memory nobody can tell counts for nothing.
    """
    by_run = {each.run: each for each in served}
    idle: list[tuple[datetime, GpuHolder]] = []
    in_the_way: list[GpuHolder] = []
    for holder in found.holders:
        mine = by_run.get(holder.other.run) if holder.other is not None else None
        if holder.kind == "process" or (holder.kind == "server" and mine is None):
            in_the_way.append(holder)
        elif mine is not None and (since := mine.idle_since(now)) is not None:
            idle.append((since, holder))
    idle.sort(key=lambda each: each[0])
    stops: list[int] = []
    freed = 0
    for _since, holder in idle:
        if holder.other is None or (lacking and freed >= lacking):
            break
        stops.append(holder.other.run)
        freed += holder.held or 0
    would_do = lacking and freed >= lacking
    return IdleEviction(stops=tuple(stops), in_the_way=() if would_do else tuple(in_the_way))
