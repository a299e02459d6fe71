"""The estimate: what a launch takes of each GPU against what is free."""

from dataclasses import dataclass, replace
from typing import Any, cast

from servers.judge.memory.pools import GpuRoom
from servers.judge.messages import Sentence, say
from servers.judge.profiles import admission
from servers.judge.profiles.facts import LaunchFacts, Subject
from servers.judge.weights.fit import attention
from servers.judge.weights.fit import demand as fit_demand
from servers.judge.weights.fit.attention import KvCacheSize, cache
from servers.judge.weights.fit.demand import GIB, LaunchDemand, overhead, read_demand, tokens
from servers.judge.weights.fit.result import (
    Estimate,
    FitPart,
    Number,
    PastMeasurement,
    Verdict,
    changes,
    find_used_rooms,
    laid_out,
)
from servers.launch.engines.launch import fill_parameters

CONTEXT = int(0.5 * GIB)  # the driver's own on a GPU, there before an engine looks
# How far off the estimate may be: bytes, but between these parts of the GPU.
UNSURE, LEAST_UNSURE, MOST_UNSURE = 2 * GIB, 0.02, 0.06
# What a machine that shares its memory with its GPU needs for everything else.
MACHINE = 8 * GIB
# Below this an engine does not shorten the context by itself.
LEAST_CONTEXT = 4096
# SGLang divides what is left between recurrent states and tokens as 0.9 to 1.
STATES_PART = 0.9


@dataclass(frozen=True, kw_only=True)
class Demand:
    """Bytes on each GPU; None: not known."""

    weights: int | None
    overhead: int
    cache: KvCacheSize | None
    asked: LaunchDemand


@dataclass(frozen=True, kw_only=True)
class _Budget:
    """What the engine leaves to the KV cache, in bytes; may be below zero."""

    room: int
    free: int  # of the GPU, before it starts
    takes: int  # what it will hold in all


def demand(facts: LaunchFacts, room: GpuRoom) -> Demand:
    """What the launch will want of a GPU like this."""
    said = read_demand(facts, memory=room.total)
    config = facts.subject.checkpoint_config
    # Attention is divided by less where SGLang repeats it for data parallelism.
    tp = max(1, (facts.tp or 1) // (fit_demand.count_replicas(facts) or 1))
    found = None
    if config is not None and said.cache_bytes is not None:
        is_sparse_fp8 = facts.engine == "vllm" and said.cache_bytes == 1
        found = cache(
            config, dtype=said.cache_bytes, tp=tp, pp=facts.pp or 1, sparse_fp8=is_sparse_fp8
        )
    if found is not None and facts.engine == "llamacpp":
        found = fit_demand.fit_windows(facts, found)
    return Demand(
        weights=fit_demand.share_weights(facts),
        overhead=overhead(facts, said),
        cache=found,
        asked=said,
    )


def estimate(subject: Subject, past: PastMeasurement | None = None) -> Estimate | None:
    """Against what is free now; None for a launch without GPUs, or for a box without any.

    What past starts of the same launch took outranks the formula. Nothing is guessed: what is
    not known stands in `unknown`, and the verdict is "unknown" where it would decide.
    """
    subject = replace(subject, launch=fill_parameters(subject.launch))
    found = _judge(subject, past)
    if found is None or found.verdict not in ("no", "tight") or past is not None:
        return found
    tried = changes(subject, found.verdict, lambda other: _judge(other, None))
    return replace(found, fixes=tried)


def _judge(subject: Subject, past: PastMeasurement | None) -> Estimate | None:
    facts = LaunchFacts(subject)
    if facts.launch.gpus == "none" or subject.rooms == () or subject.gpus == ():
        return None
    rooms = find_used_rooms(facts)
    if not rooms:
        return _conclude(say("weights.fit-no-gpus"), unknown=("the GPUs",))
    least = min(rooms, key=lambda room: room.total if room.free is None else room.free)
    return replace(_of_least(facts, least, past), where=_where(facts, rooms, least))


def _of_least(facts: LaunchFacts, least: GpuRoom, past: PastMeasurement | None) -> Estimate:
    refused = next((hit for check in admission.CHECKS for hit in check.judge(facts)), None)
    if refused is not None and refused.severity == "error":
        found = _use_measurement(least, past) if past else _formula(facts, least)
        said = say("weights.fit-refused", why=refused.says)
        return replace(found, verdict="no", says=said.text, code=said.code, params=said.params)
    return _use_measurement(least, past) if past else _formula(facts, least)


def _formula(facts: LaunchFacts, least: GpuRoom) -> Estimate:
    wanted = demand(facts, least)
    unknown = (*_unknown(wanted, least), *fit_demand.explain_unknown_weights(facts))
    if wanted.weights is None:
        return _conclude(
            say("weights.fit-no-size"),
            total=least.total,
            parts=laid_out(_place_parts([], least), least.total),
            unknown=unknown,
        )
    return _estimate(facts, least, wanted, wanted.weights, unknown)


def _unknown(wanted: Demand, room: GpuRoom) -> tuple[str, ...]:
    found = []
    if room.free is None:
        found.append("what is free now")
    if wanted.weights is None:
        found.append("the size of the weights")
    if wanted.asked.context is None:
        found.append("the length of the context")
    if wanted.cache is None:
        found.append("what a token takes of the KV cache")
    return tuple(found)


def _budget(facts: LaunchFacts, room: GpuRoom, wanted: Demand, held: int) -> _Budget:
    """`held`: the weights. Rules: vLLM's gpu_worker.py, SGLang's model_runner.py."""
    free = room.total if room.free is None else room.free
    share = wanted.asked.share
    said = facts.flag("--kv-cache-memory-bytes") if facts.engine == "vllm" else None
    if said is not None and (size := tokens(said.value)):
        # It takes this much whatever the utilization says, if it is there.
        there = free - held - wanted.overhead
        return _Budget(room=min(size, there), free=free, takes=held + wanted.overhead + size)
    if facts.engine == "vllm" and share is not None:
        budget = min(int(room.total * share), free)
        return _Budget(room=budget - held - wanted.overhead, free=free, takes=budget)
    if facts.engine == "sglang" and share is not None:
        there = free - CONTEXT
        left = int(there * share) - held
        beside = min(there - int(there * share), wanted.overhead)
        return _Budget(room=left, free=free, takes=max(left, 0) + held + CONTEXT + beside)
    left = free - held - wanted.overhead
    return _Budget(room=left, free=free, takes=held + wanted.overhead)


def _estimate(
    facts: LaunchFacts, room: GpuRoom, wanted: Demand, held: int, unknown: tuple[str, ...]
) -> Estimate:
    budget = _budget(facts, room, wanted, held)
    said, kept = wanted.asked, wanted.cache
    request = kept.request(said.context, chunk=said.chunk) if kept and said.context else None
    for_tokens = budget.room
    if facts.engine == "sglang" and kept and kept.state:
        for_tokens = int(budget.room / (1 + STATES_PART))
    longest = kept.longest(for_tokens, chunk=said.chunk) if kept else None
    if longest is not None and facts.engine == "sglang":
        longest = min(longest, facts.number("--max-total-tokens", 0) or longest)
    verdict = _verdict(facts, room, wanted, budget, request, longest)
    is_llama = facts.engine == "llamacpp"
    pool = 0 if is_llama else max(0, budget.room - (request or 0))
    shown = request or 0
    if verdict.severity != "no":
        shown = max(0, min(shown, budget.room))
    parts = [
        FitPart(kind="weights", name="weights", size=held),
        FitPart(kind="overhead", name="activations and graphs", size=wanted.overhead),
        FitPart(kind="request", name="KV cache of one request", size=shown),
        FitPart(kind="cache", name="KV cache for more", size=pool),
    ]
    lacking = max(0, (request or 1) - for_tokens) if verdict.severity == "no" else 0
    return _conclude(
        verdict,
        total=room.total,
        takes=budget.takes + (request or 0 if is_llama else 0),
        lacking=lacking,
        limit=room.others + budget.takes if facts.engine == "vllm" else 0,
        parts=laid_out(_place_parts(parts, room), room.total),
        numbers=_numbers(facts, room, wanted, budget, longest),
        unknown=unknown,
    )


def _verdict(
    facts: LaunchFacts,
    room: GpuRoom,
    wanted: Demand,
    budget: _Budget,
    request: int | None,
    longest: int | None,
) -> Sentence:
    unsure = max(min(UNSURE, room.total * MOST_UNSURE), room.total * LEAST_UNSURE)
    context = wanted.asked.context
    if budget.room <= 0 and facts.engine == "llamacpp":
        return say("weights.fit-layers-in-main-memory", more=-budget.room, where=_one(room))
    if budget.room <= 0:
        return say(
            "weights.fit-weights-too-large",
            more=-budget.room,
            allowed=_describe_allowed(wanted),
            total=room.total,
            where=_one(room),
        )
    if request is None or longest is None or context is None:
        return say("weights.fit-tokens-unknown", left=budget.room)
    if wanted.asked.chooses_context and longest >= LEAST_CONTEXT:
        context = min(context, longest)
        request = min(request, budget.room)
        if longest == context:
            return say("weights.fit-context-shortened", tokens=longest)
    if longest < context and facts.engine != "sglang":
        return say(
            "weights.fit-context-too-long",
            context=context,
            request=request,
            left=budget.room,
            tokens=longest,
        )
    left = budget.free - budget.takes - (request if facts.engine == "llamacpp" else 0)
    if longest < context:
        return say("weights.fit-requests-cut-short", tokens=longest, context=context)
    if room.is_unified and left < MACHINE:
        return say("weights.fit-machine-short", left=max(0, left), wanted=MACHINE)
    if budget.room - request < unsure:
        return say(
            "weights.fit-little-to-spare",
            context=context,
            spare=budget.room - request,
            unsure=unsure,
        )
    beside = int((budget.free - CONTEXT) * (1 - (wanted.asked.share or 0)))
    if facts.engine == "sglang" and beside < wanted.overhead / 2:
        return say(
            "weights.fit-share-too-high",
            share=wanted.asked.share,
            left=beside,
            needed=wanted.overhead,
        )
    lead = "Fits" if room.free is not None else "Fits if nothing else holds its GPUs"
    if facts.engine == "llamacpp":
        return say("weights.fit-llamacpp", lead=lead, context=context)
    many = longest / context
    fits = {"lead": lead, "tokens": longest}
    fits["requests"] = f"{many:.1f}" if many < 9.95 else f"{many:,.0f}"
    if wanted.asked.says_sequences and wanted.asked.sequences > many:
        return say("weights.fit-others-wait", **fits, allowed=wanted.asked.sequences)
    return say("weights.fit-requests", **fits)


def _conclude(said: Sentence, **known: Any) -> Estimate:
    verdict = cast(Verdict, said.severity)
    return Estimate(verdict=verdict, says=said.text, code=said.code, params=said.params, **known)


def _describe_allowed(wanted: Demand) -> str:
    share = wanted.asked.share
    return "the free part" if share is None else f"the {share:g} that it may take"


def _one(room: GpuRoom) -> str:
    return "this machine" if room.is_unified else f"GPU {room.index}"


def _use_measurement(room: GpuRoom, past: PastMeasurement) -> Estimate:
    """What was measured last time, against what is free now."""
    free = room.total if room.free is None else room.free
    spare = free - past.peak
    had = {"peak": past.peak, "day": f"{past.day:%d %b %Y}"}
    if room.free is None:
        said = say("weights.fit-measured-free-unknown", **had, total=room.total)
    elif spare < 0:
        said = say("weights.fit-measured-does-not-fit", **had, free=free)
    elif room.is_unified and spare < MACHINE:
        said = say("weights.fit-measured-machine-short", **had, left=spare)
    else:
        said = say("weights.fit-measured", **had, free=free)
    parts = [FitPart(kind="measured", name="as measured", size=past.peak)]
    return _conclude(
        said,
        total=room.total,
        takes=past.peak,
        lacking=max(0, -spare),
        parts=laid_out(_place_parts(parts, room), room.total),
        numbers=(
            Number(name="Measured", value=f"{_gib(past.peak)} GiB a GPU", source=f"run {past.run}"),
            Number(name="Free now", value=f"{_gib(free)} of {_gib(room.total)} GiB"),
        ),
        unknown=("what is free now",) if room.free is None else (),
        is_measured=True,
    )


def _where(facts: LaunchFacts, rooms: tuple[GpuRoom, ...], least: GpuRoom) -> str:
    """Which GPUs the bar is of: all of them, where nobody would see a difference between theirs."""
    if least.is_unified:
        return least.named
    if len(rooms) == 1:
        given = len(facts.used_gpus or ())
        return f"{least.named} (the flags use 1 of {given} GPUs)" if given > 1 else least.named
    named = f"GPUs {', '.join(str(room.index) for room in sorted(rooms, key=lambda r: r.index))}"
    shown = {(_gib(room.total), None if room.free is None else _gib(room.free)) for room in rooms}
    return f"Each of {named}" if len(shown) == 1 else f"{least.named}, the fullest of {named}"


def _place_parts(parts: list[FitPart], room: GpuRoom) -> list[FitPart]:
    name = "other programs and the machine" if room.is_unified else "held by others"
    around = [FitPart(kind="others", name=name, size=room.others), *parts]
    left = room.total - sum(part.size for part in around)
    return [*around, FitPart(kind="free", name="free", size=max(0, left))]


def _numbers(
    facts: LaunchFacts, room: GpuRoom, wanted: Demand, budget: _Budget, longest: int | None
) -> tuple[Number, ...]:
    said, kept = wanted.asked, wanted.cache
    count = (facts.tp or 1) * (facts.pp or 1)
    found = [
        Number(
            name="Weights",
            value=f"{_gib(wanted.weights or 0)} GiB a GPU",
            source=f"{_gib(facts.subject.weights or 0)} GiB on disk, over {count} "
            + ("GPU" if count == 1 else "GPUs"),
        ),
        Number(
            name="Activations and graphs",
            value=f"{_gib(wanted.overhead)} GiB",
            source=f"estimated for {said.chunk:,} tokens at once and {said.sequences:,} requests",
        ),
    ]
    if kept is not None:
        each = "the same on every GPU" if _is_same_everywhere(facts) else "a GPU's share"
        value = f"{(kept.token + kept.window) / 1024:.1f} KiB a token"
        if kept.window:
            value += f", {kept.token / 1024:.1f} beyond {kept.span:,} tokens"
        if kept.state:
            value += f", {kept.state / 2**20:.1f} MiB a request"
        found.append(Number(name="KV cache", value=value, source=f"config.json; {each}"))
    if said.share is not None:
        where = "the profile" if said.says_share else "the engine's default"
        found.append(Number(name="Share of the GPU", value=f"{said.share:g}", source=f"by {where}"))
    if said.context is not None:
        found.append(Number(name="Longest request", value=f"{said.context:,} tokens"))
    found.append(Number(name="Left for the KV cache", value=f"{_gib(budget.room)} GiB"))
    if longest is not None:
        found.append(Number(name="Tokens that fit", value=f"about {longest:,}"))
    free = "not known" if room.free is None else f"{_gib(room.free)} of {_gib(room.total)} GiB"
    found.append(Number(name="Free now", value=free, source=room.named))
    return tuple(found)


def _is_same_everywhere(facts: LaunchFacts) -> bool:
    return attention.is_latent(facts.subject.checkpoint_config or {})


def _gib(size: float) -> str:
    return f"{size / GIB:.1f}"
