"""The release of GPU memory after a run: how much is back, and what holds the rest.

Counted is what a pool has in use beyond what it had before the engine was made, without what
other programs hold by the driver's word. Sizes are in bytes, times in seconds since 1970.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from servers.judge.memory.pools import GIB, Pool, PoolProcess, Snapshot, orphaned_shm, pools
from servers.judge.memory.stops import MemoryThresholds
from servers.judge.messages import say

type Outcome = Literal["", "releasing", "back", "held", "shm", "missing", "unsure", "boot"]
type Before = Mapping[str, Any]

# Bytes that a pool may have in use more than before and still be back: what the driver keeps for
# clients, and what two readings that are not of one instant differ by.
TOLERANCE = {"discrete": GIB, "unified": 2 * GIB, "numa": 2 * GIB}
# For so long a late return is still noted.
REMEMBERED = 24 * 3600.0
# Seconds: a reading that is older says nothing of now. To make a container may take a minute.
FRESH = 90.0
_CLOCKS_DIFFER = 5.0
_MOST_HOLDERS = 8
# Seconds in which a process may still be on its way out.
_HELD_AFTER = 30.0

USUAL = MemoryThresholds()


@dataclass(frozen=True, kw_only=True)
class UnreleasedHolder:
    """A process of the engine that is still there; or shared memory, with a path and no pid."""

    pid: int = 0
    name: str = ""
    container: str = ""
    since: float | None = None  # the process's start
    size: int | None = None  # None: the driver does not tell
    path: str = ""


@dataclass(frozen=True, kw_only=True)
class ReleaseLook:
    """What one sample says of the pools that an engine has used."""

    t: float
    boot: str
    size: int  # beyond what was in use before, held by none of the others
    is_back: bool  # in every pool
    others: int  # held by other programs
    doubt: str  # why `size` may be somebody else's, as the end of a sentence; "" where it is not
    grace: float
    holders: tuple[UnreleasedHolder, ...]
    shm: tuple[int, tuple[str, ...]]  # of that, shared memory that nobody uses, and its paths


@dataclass(frozen=True, kw_only=True)
class Release:
    """How far the return of an engine's memory is, or what came of it."""

    outcome: Outcome = ""
    held: int | None = None  # when it ended; None: nobody looked
    to_come: int = 0
    seconds: float | None = None  # that the return took
    until: float = 0.0  # the end of the grace
    mark: tuple[float, int] = (0.0, 0)  # an earlier `to_come`, to see whether it falls
    others: int = 0
    was_doubted: bool = False
    holders: tuple[UnreleasedHolder, ...] = ()
    doubt: str = ""

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        kept = dict(said)
        kept["holders"] = tuple(UnreleasedHolder(**each) for each in kept.get("holders", ()))
        kept["mark"] = tuple(kept.get("mark", (0.0, 0)))
        return cls(**kept)

    def to_json(self) -> dict[str, Any]:
        said = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return said | {"holders": [vars(each) for each in self.holders], "mark": list(self.mark)}

    @property
    def released(self) -> int | None:
        """Bytes that came back; None where nobody can say."""
        if self.held is None or self.was_doubted:
            return None
        return max(0, self.held - self.to_come)

    @property
    def is_over(self) -> bool:
        """Nothing more is to be waited for."""
        return self.outcome in ("back", "unsure", "boot")


def measure_before(sample: Snapshot | None, gpus: str, *, now: float) -> dict[str, Any] | None:
    """What these GPUs ("all", "none" or indices) have in use before an engine is made.

    None where there is none, or where nothing is known of this moment.
    """
    if sample is None or sample.get("stale_s") is not None or now - sample["t"] > FRESH:
        return None
    found = {
        pool.gpu: {"unheld": pool.unheld, "others": _sizes(pool.clients)}
        for pool in _pools(sample, gpus)
    }
    if not found:
        return None
    left, _paths = orphaned_shm(sample)
    return {"boot": sample.get("boot_id") or "", "gpus": gpus, "pools": found, "shm": left}


def lower(one: Before, other: Before | None) -> dict[str, Any]:
    """`one` with the smaller figures of `other` where both are of one boot.

    For an engine that is made while an earlier one's memory is still on its way back.
    """
    if other is None or other["boot"] != one["boot"]:
        return dict(one)
    said = {
        gpu: each | {"unheld": min(each["unheld"], other["pools"][gpu]["unheld"])}
        if gpu in other["pools"]
        else each
        for gpu, each in one["pools"].items()
    }
    return {**one, "pools": said}


def look(
    earlier: Before,
    snapshot: Snapshot,
    container: str,
    *,
    began: float | None = None,
    ended: float | None = None,
    pids: Collection[int] = (),
    thresholds: MemoryThresholds = USUAL,
) -> ReleaseLook | None:
    """What a snapshot says of the memory of the engine in this container.

    `began` and `ended` are the engine's, and `pids` are its processes as far as they were seen:
    the driver may know them longer than the kernel. None where the snapshot is stale, or has not all of
    the pools.
    """
    if snapshot.get("stale_s") is not None or snapshot.get("collector_ok") is False:
        return None
    there = {pool.gpu: pool for pool in _pools(snapshot, earlier["gpus"])}
    if not earlier["pools"].keys() <= there.keys():
        return None
    size = others = 0
    is_back, kinds = True, set[str]()
    doubts: list[str] = []
    mine: dict[int, PoolProcess] = {}
    held: dict[int, int | None] = {}
    for gpu, then in earlier["pools"].items():
        pool = there[gpu]
        kinds.add(pool.kind)
        own = [each for each in pool.clients if _is_own(each, container, began, ended, pids)]
        foreign = [each for each in pool.clients if each not in own]
        theirs = sum(each.used or 0 for each in foreign)
        more = pool.in_use - theirs - then["unheld"]
        size += max(0, more)
        others += theirs
        is_back = is_back and more <= TOLERANCE[pool.kind]
        doubts += _doubts(pool, foreign, then["others"])
        if not pool.is_listed:
            doubts.insert(0, say("memory.doubt-no-list").text)
        for each in own:
            mine[each.pid] = each
            before_that = held.get(each.pid, 0)
            unknown = each.used is None or before_that is None
            held[each.pid] = None if unknown else (before_that or 0) + (each.used or 0)
    # Shared memory is the GPU's too where there is one memory, and no reading of the pool has it.
    left, paths = orphaned_shm(snapshot) if "unified" in kinds else (0, ())
    left = max(0, left - earlier.get("shm", 0))
    if not snapshot.get("sees_host_pids"):
        doubts.insert(0, say("memory.doubt-no-processes").text)
    return ReleaseLook(
        t=float(snapshot["t"]),
        boot=snapshot.get("boot_id") or "",
        size=size + left,
        is_back=is_back and left <= TOLERANCE["unified"],
        others=others,
        doubt=doubts[0] if doubts else "",
        grace=max(thresholds.grace[kind] for kind in kinds),
        holders=tuple(_holders(mine, held)),
        shm=(left, paths),
    )


def step(
    so_far: Release,
    seen: ReleaseLook | None,
    earlier: Before,
    *,
    ended: float,
    now: float,
    thresholds: MemoryThresholds = USUAL,
) -> Release:
    """What to say of it now. `seen` is None while the collector tells nothing."""
    if seen is not None and seen.boot != earlier["boot"]:
        return replace(so_far, outcome="boot", to_come=0, holders=(), doubt="")
    if so_far.outcome in ("", "releasing"):
        return _judge_within_grace(so_far, seen, thresholds, ended=ended, now=now)
    if so_far.is_over or seen is None or seen.doubt or not seen.is_back:
        return so_far
    # It came in the end: whoever held it is part of the story.
    return replace(so_far, outcome="back", to_come=seen.size, seconds=seen.t - ended)


def _judge_within_grace(
    so_far: Release,
    seen: ReleaseLook | None,
    thresholds: MemoryThresholds,
    *,
    ended: float,
    now: float,
) -> Release:
    if seen is None or seen.t < ended:
        if now - ended > max(thresholds.grace.values()):
            why = say("memory.doubt-no-samples").text
            return replace(so_far, outcome="unsure", to_come=0, holders=(), doubt=why)
        return so_far
    is_first = so_far.outcome == ""
    held = so_far.held
    if is_first and held is None and not seen.is_back:
        held = seen.size
    # Two readings that are not of one instant: while others load, the difference is theirs.
    moves = not is_first and abs(seen.others - so_far.others) > min(TOLERANCE.values()) // 4
    until = so_far.until or ended + seen.grace
    mark = so_far.mark if not is_first else (seen.t, seen.size)
    if seen.t - mark[0] >= thresholds.falling_within:
        if mark[1] - seen.size >= thresholds.falling:
            until = max(until, seen.t + thresholds.falling_grace)
        mark = (seen.t, seen.size)
    new = replace(
        so_far,
        outcome="releasing",
        held=held,
        to_come=seen.size,
        until=until,
        mark=mark,
        others=seen.others,
        was_doubted=so_far.was_doubted or bool(seen.doubt) or moves,
        holders=seen.holders,
        doubt=seen.doubt,
    )
    if seen.is_back and not moves:
        return replace(new, outcome="back", seconds=max(0.0, seen.t - ended), holders=())
    # What a process holds does not come back by waiting.
    rest = seen.size - sum(each.size or 0 for each in seen.holders)
    is_held = rest <= min(TOLERANCE.values()) and seen.t - ended > _HELD_AFTER
    return _judge_after_grace(new, seen) if is_held or seen.t > until else new


def _judge_after_grace(new: Release, seen: ReleaseLook) -> Release:
    """The grace has ended, and the memory has not come."""
    holding = [each for each in seen.holders if each.size is None or each.size > GIB // 2]
    if holding:
        return replace(new, outcome="held", holders=tuple(holding))
    size, paths = seen.shm
    if size > TOLERANCE["unified"] and not seen.doubt:
        left = tuple(UnreleasedHolder(path=path) for path in paths)
        return replace(new, outcome="shm", to_come=size, holders=left)
    if seen.doubt or new.was_doubted:
        why = seen.doubt or say("memory.doubt-others-changed").text
        return replace(new, outcome="unsure", doubt=why)
    return replace(new, outcome="missing")


def _pools(snapshot: Snapshot, gpus: str) -> Iterator[Pool]:
    wanted = {int(index) for index in gpus.split(",") if index.isdigit()}
    cards = [
        card
        for card in snapshot.get("gpus") or []
        if gpus == "all" or card.get("index", 0) in wanted
    ]
    for pool in pools({**snapshot, "gpus": cards}):
        if isinstance(pool, Pool):
            yield pool


def _key(client: PoolProcess) -> str:
    return f"{client.pid} {client.start or 0:.0f}"


def _sizes(clients: tuple[PoolProcess, ...]) -> dict[str, int | None]:
    return {_key(each): each.used for each in clients if not each.is_desktop}


def _is_own(
    client: PoolProcess,
    container: str,
    began: float | None,
    ended: float | None,
    pids: Collection[int],
) -> bool:
    if not client.is_known:
        return client.pid in pids
    if client.container or not client.is_worker or client.ppid != 1 or ended is None:
        return client.container == container and bool(container)
    # A worker that was left to the box's first process, and began while the engine ran.
    return (
        client.start is not None
        and began is not None
        and began - _CLOCKS_DIFFER <= client.start <= ended + _CLOCKS_DIFFER
    )


def _doubts(
    pool: Pool, foreign: list[PoolProcess], then: Mapping[str, int | None]
) -> Iterator[str]:
    others = [each for each in foreign if not each.is_desktop]
    if any(each.used is None for each in others):
        yield say("memory.doubt-no-size").text
    if pool.kind == "discrete":
        return
    # There the driver counts only part of what a program takes.
    now = {_key(each): each.used or 0 for each in others}
    changed = sum(
        abs((now.get(key) or 0) - (then.get(key) or 0)) for key in now.keys() | then.keys()
    )
    if changed > TOLERANCE[pool.kind]:
        yield say("memory.doubt-others-changed").text


def _holders(
    mine: Mapping[int, PoolProcess], held: Mapping[int, int | None]
) -> Iterator[UnreleasedHolder]:
    most = sorted(mine.values(), key=lambda each: -(held[each.pid] or 0))
    for each in most[:_MOST_HOLDERS]:
        yield UnreleasedHolder(
            pid=each.pid,
            name=_short(each),
            container=each.container,
            since=each.start,
            size=held[each.pid],
        )


def _short(client: PoolProcess) -> str:
    """Its program, or what the engine calls it; without the arguments."""
    return client.name[:60] if client.is_worker else client.name.split(" ")[0].rpartition("/")[2]


# Of what they held: a driver keeps some pages, and others allocate meanwhile.
_SLACK = 0.1
# Bytes below which nobody can tell one from the other.
_LEAST = GIB // 4


@dataclass(frozen=True, kw_only=True)
class Members:
    """Whose memory it is: a container's, or that of these processes."""

    container: str = ""
    pids: tuple[int, ...] = ()


# By GPU: bytes in use there by all, and by them; None where the driver does not tell.
type Held = dict[int, tuple[int | None, int | None]]


def held_before(sample: Mapping[str, Any] | None, members: Members) -> Held:
    """What they hold of each GPU; nothing of GPUs that they are not on."""
    known = sample or {}
    pids = _pids(known, members)
    found: Held = {}
    for card in known.get("gpus") or []:
        mine = [each.get("used") for each in card.get("processes") or [] if each["pid"] in pids]
        if mine:
            own = None if None in mine else sum(mine)
            found[card["index"]] = (card.get("used"), own)
    return found


def describe_missing(before: Held, sample: Mapping[str, Any], members: Members) -> str:
    """What is not back yet, in words; "" when all is.

    Rule: nobody of them is on the GPU any more, and as much less of it is in use as they held,
    but for a tenth; where the driver tells no figures the first half alone.
    """
    pids = _pids(sample, members)
    for card in sample.get("gpus") or []:
        index = card["index"]
        if index not in before:
            continue
        if any(each["pid"] in pids for each in card.get("processes") or []):
            return say("memory.missing-of-gpu", gpu=index).text
        used, own = before[index]
        now = card.get("used")
        if used is None or own is None or now is None:
            continue
        left = own - (used - now)
        if left > max(_LEAST, own * _SLACK):
            return say("memory.missing-size-of-gpu", size=left, gpu=index).text
    return ""


def _pids(sample: Mapping[str, Any], members: Members) -> frozenset[int]:
    if not members.container:
        return frozenset(members.pids)
    return frozenset(
        each["pid"]
        for each in sample.get("processes") or []
        if each.get("container") == members.container
    )
