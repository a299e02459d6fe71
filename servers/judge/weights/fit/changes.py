"""Flags that would make a launch fit, each tried before it is offered."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.fixes import Fix, adapt_fix
from servers.judge.profiles.subject import Subject
from servers.judge.weights.fit.demand import CONTEXT_FLAG, GIB, SHARE_FLAG, read_demand
from servers.judge.weights.fit.result import BETTER, Estimate, Verdict
from servers.judge.weights.fit.rooms import find_used_rooms
from servers.launch.engines.change import LaunchChange

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
