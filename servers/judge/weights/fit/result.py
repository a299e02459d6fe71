"""The result of an estimate, what would change it, and the room on each GPU."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Literal

from servers.judge.memory.pools import GpuRoom
from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.judge.profiles.lint_rules import Fix, adapt_fix
from servers.judge.weights.fit.demand import CONTEXT_FLAG, GIB, SHARE_FLAG, read_demand
from servers.launch.engines import placement
from servers.launch.engines.change import LaunchChange

# "no": it does not fit. "unknown": too little is known to say.
type Verdict = Literal["fits", "tight", "no", "unknown"]
type Kind = Literal["others", "weights", "overhead", "request", "cache", "measured", "free"]

BETTER: dict[Verdict, int] = {"no": 0, "unknown": 1, "tight": 2, "fits": 3}


@dataclass(frozen=True, kw_only=True)
class FitPart:
    """A part of the bar. `start` and `width` are percent of the whole."""

    kind: Kind
    name: str
    size: int  # bytes
    start: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, kw_only=True)
class PastMeasurement:
    """What the latest good start of the same launch on the same box was seen to hold."""

    peak: int  # bytes on each of its GPUs
    day: date
    run: int


@dataclass(frozen=True, kw_only=True)
class Number:
    name: str
    value: str
    source: str = ""  # where it comes from


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Of the GPU with the least room: every GPU takes the same share."""

    verdict: Verdict
    says: str  # "Fits: …", the verdict in a few words before a colon
    where: str = ""  # "GPU 1", "Each of GPUs 0, 1"
    total: int = 0  # bytes
    takes: int | None = None  # bytes that it would hold in the end; None: not known
    lacking: int = 0  # bytes over what there is; 0 unless it does not fit
    limit: int = 0  # bytes on the bar up to which the engine lets itself go; 0: it has none
    parts: tuple[FitPart, ...] = ()
    numbers: tuple[Number, ...] = ()
    unknown: tuple[str, ...] = ()  # what is not known, and not counted
    fixes: tuple[LaunchChange, ...] = ()
    is_measured: bool = False
    code: str = ""  # of the message, with what it was filled in with
    params: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def lead(self) -> str:
        return self.says.partition(": ")[0]

    @property
    def rest(self) -> str:
        return self.says.partition(": ")[2]

    @property
    def end(self) -> float | None:
        """Where on a bar that is longer than the GPU the GPU ends, in percent."""
        return self._place(self.total) if self._whole > self.total * 1.005 else None

    @property
    def limit_at(self) -> float | None:
        """Where on the bar the engine's own limit is, in percent."""
        return self._place(self.limit) if self.limit and self.parts else None

    @property
    def _whole(self) -> int:
        return max(self.total, sum(part.size for part in self.parts))

    def _place(self, size: int) -> float:
        return round(min(size, self._whole) * 100 / self._whole, 3)


def laid_out(parts: list[FitPart], total: int) -> tuple[FitPart, ...]:
    """The parts beside each other on a bar as long as `total` or their sum, whichever is more."""
    whole = max(total, sum(part.size for part in parts)) or 1
    found, at = [], 0
    for part in parts:
        if part.size > 0:
            start, width = round(at * 100 / whole, 3), round(part.size * 100 / whole, 3)
            found.append(
                FitPart(kind=part.kind, name=part.name, size=part.size, start=start, width=width)
            )
            at += part.size
    return tuple(found)


def find_used_rooms(facts: LaunchFacts) -> tuple[GpuRoom, ...]:
    """The rooms of the GPUs that the engine divides the model over; () where that is not known.

    Where a profile says which GPUs and not where ("2x H200"), those with the most free memory.
    """
    rooms, gpus = facts.subject.rooms, facts.used_gpus
    if not rooms or not gpus:
        return ()
    if which := placement.parse_gpu_requirement(facts.launch.gpus):
        fitting = {
            gpu.index
            for gpu in facts.subject.gpus or ()
            if which.fits((gpu.name, gpu.compute_capability))
        }
        found = sorted(
            (room for room in rooms if room.index in fitting),
            key=lambda room: (-(room.free or 0), room.index),
        )[: which.count]
    else:
        indices = [gpu.index for gpu in gpus]
        found = [room for room in rooms if room.index in indices]
    needed = on_this_box(facts)
    return tuple(found[:needed] if needed else found)


def on_this_box(facts: LaunchFacts) -> int | None:
    """How many GPUs of one machine the flags divide the model over; None where not known."""
    if facts.engine == "llamacpp" or None in (facts.tp, facts.pp, facts.dp) or not facts.nodes:
        return None
    shared = facts.engine == "sglang" and (
        facts.flag("--enable-dp-attention") or facts.flag("--attn-dp-size")
    )
    replicas = 1 if shared else facts.number("--data-parallel-size-local", 0) or facts.dp or 1
    return -(-(facts.tp or 1) * (facts.pp or 1) * replicas // facts.nodes)


type Flags = Mapping[str, str]
type Judge = Callable[[Subject], Estimate | None]

MOST = 3
_HIGHEST = 0.95
_SPARE = int(0.6 * GIB)  # the driver's own context, and a little
_FP8_FROM = (8, 9)  # the compute capability whose kernels read an FP8 cache
_CACHE_FP8 = {"vllm": "fp8", "sglang": "fp8_e4m3"}
_FEW = {"vllm": ("--max-num-seqs", 64), "sglang": ("--max-running-requests", 32)}
REASON = "Makes it fit into the GPUs' memory"


def changes(subject: Subject, verdict: Verdict, judge: Judge) -> tuple[LaunchChange, ...]:
    """At most three, those first that change least of what the launch can do.

    `judge` says what an estimate of the changed launch is.
    """
    facts = LaunchFacts(subject)
    better: list[tuple[Verdict, LaunchChange]] = []
    for flags in _candidates(facts, judge):
        found = _try_change(facts, flags, judge)
        if found is None or BETTER[found[0]] <= BETTER[verdict]:
            continue
        # What does as much with fewer changes is there already.
        is_more = any(
            BETTER[reached] >= BETTER[found[0]] and set(change.set_flags) <= set(found[1].set_flags)
            for reached, change in better
        )
        if not is_more:
            better.append(found)
    # Where something makes it fit, what only makes it tight is not worth a button.
    best = max((BETTER[reached] for reached, _change in better), default=0)
    return tuple(change for reached, change in better if BETTER[reached] == best)[:MOST]


def _try_change(
    facts: LaunchFacts, flags: Flags, judge: Judge
) -> tuple[Verdict, LaunchChange] | None:
    change = adapt_fix(Fix(change=LaunchChange(set_flags=flags)), facts, reason=REASON)
    if change is None or len(change.set_flags) < len(flags):
        return None  # this engine has not all of them
    found = judge(replace(facts.subject, launch=change.apply(facts.launch)))
    return (found.verdict, change) if found is not None else None


def _candidates(facts: LaunchFacts, judge: Judge) -> Iterator[Flags]:
    """One change alone, then several together, then a shorter context with as few as possible."""
    alone = [each for each in (_share(facts, judge), _fp8_cache(facts), _fewer(facts)) if each]
    yield from alone
    if context := _context(facts, {}, judge):
        yield context
    together: Flags = {}
    for each in alone:
        together = {**together, **each}
        yield together
        if context := _context(facts, together, judge):
            yield {**together, **context}


def _fewer(facts: LaunchFacts) -> Flags | None:
    """Fewer requests at once need less beside the weights."""
    flag, few = _FEW.get(facts.engine, ("", 0))
    rooms = find_used_rooms(facts)
    if not flag or not rooms:
        return None
    return {flag: str(few)} if read_demand(facts, memory=rooms[0].total).sequences > few else None


def _share(facts: LaunchFacts, judge: Judge) -> Flags | None:
    """The least other part of the GPU that makes it fit; else as much as there is."""
    flag = SHARE_FLAG.get(facts.engine)
    rooms = [room for room in find_used_rooms(facts) if room.free is not None]
    if flag is None or not rooms:
        return None
    now = read_demand(facts, memory=rooms[0].total).share
    most = _HIGHEST
    if facts.engine == "vllm":  # a part of all of it; SGLang's is one of what is free
        most = min(most, *(((room.free or 0) - _SPARE) / room.total for room in rooms))
    most = math.floor(most * 100) / 100
    if now is None or most <= 0 or most == now:
        return None
    if most < now:
        return {flag: f"{most:.2f}"}
    steps = [each / 100 for each in range(math.ceil(now * 100) + 2, int(most * 100), 2)]
    for share in steps:
        found = _try_change(facts, {flag: f"{share:.2f}"}, judge)
        if found is not None and found[0] == "fits":
            return {flag: f"{share:.2f}"}
    return {flag: f"{most:.2f}"}


def _fp8_cache(facts: LaunchFacts) -> Flags | None:
    if facts.engine == "llamacpp":
        names = ("--cache-type-k", "--cache-type-v")
        return None if any(map(facts.flag, names)) else dict.fromkeys(names, "q8_0")
    found = [gpu.compute_capability for gpu in facts.used_gpus or ()]
    has_kernels = all(tuple(map(int, each.split("."))) >= _FP8_FROM for each in found if each)
    rooms = find_used_rooms(facts)
    held = read_demand(facts, memory=rooms[0].total).cache_bytes if rooms else None
    if not found or "" in found or not has_kernels or held is None or held < 2:
        return None
    return {"--kv-cache-dtype": _CACHE_FP8[facts.engine]}


def _context(facts: LaunchFacts, first: Flags, judge: Judge) -> Flags | None:
    """The longest context that fits after the other change, in round numbers."""
    flag = CONTEXT_FLAG[facts.engine]
    rooms = find_used_rooms(facts)
    now = read_demand(facts, memory=rooms[0].total).context if rooms else None
    if now is None:
        return None
    for tokens in _shorter(now):
        found = _try_change(facts, {**first, flag: str(tokens)}, judge)
        if found is not None and found[0] == "fits":
            return {flag: str(tokens)}
    return None


def _shorter(now: int) -> Iterator[int]:
    """Powers of two and the middles between them, down to what a chat still needs."""
    size = 1 << max(now - 1, 1).bit_length()
    while size > 4096:
        for tokens in (size, size * 3 // 4):
            if 4096 <= tokens < now:
                yield tokens
        size //= 2
    if now > 4096:
        yield 4096
