"""The capacity of a server: how many people at once it serves within limits, and what binds it."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.points import LATE, PointConditions, PointFigures, Spread
from servers.judge.messages import Sentence, say

_FULL = 0.95  # of the KV cache: the next request waits, or another is computed twice


@dataclass(frozen=True, kw_only=True)
class CapacityLimits:
    """What people put up with: seconds to the first token, and tokens a second for each."""

    first: float = 1.0
    speed: float = 20.0

    def is_kept(self, step: "CrowdStep") -> bool:
        return self.keeps_first(step) and self.keeps_speed(step)

    def keeps_first(self, step: "CrowdStep") -> bool:
        return step.first is not None and step.first <= self.first

    def keeps_speed(self, step: "CrowdStep") -> bool:
        return step.speed is not None and step.speed >= self.speed


@dataclass(frozen=True, kw_only=True)
class CrowdStep:
    """People at once, and what nine of ten of them see, as the median over rounds.

    Of few requests, what all of them see. None: no request was whole.
    """

    people: int
    first: float | None
    speed: float | None
    is_clean: bool
    conditions: tuple[PointConditions, ...]


@dataclass(frozen=True, kw_only=True)
class ServerCapacity:
    """`kept` is the largest crowd within the limits, `broken` the next one that was not.

    None: nothing that was measured was. `binds` says what bound it at `broken`.
    """

    limits: CapacityLimits
    kept: CrowdStep | None
    broken: CrowdStep | None
    binds: Sentence | None
    steps: tuple[CrowdStep, ...]

    @property
    def breaks_first(self) -> bool:
        return self.broken is not None and not self.limits.keeps_first(self.broken)

    @property
    def breaks_speed(self) -> bool:
        return self.broken is not None and not self.limits.keeps_speed(self.broken)


def find_capacity(points: Sequence[MeasuredPoint], limits: CapacityLimits) -> ServerCapacity | None:
    """None where no two sizes of crowds were measured.

    A crowd that keeps the limits above one that broke them counts for nothing: it was chance.
    """
    steps = tuple(sorted(list_steps(points), key=lambda step: step.people))
    if not steps:
        return None
    kept: CrowdStep | None = None
    broken: CrowdStep | None = None
    for step in steps:
        if not limits.is_kept(step):
            broken = step
            break
        kept = step
    binds = _find_binding(broken, kept, limits) if broken else None
    return ServerCapacity(limits=limits, kept=kept, broken=broken, binds=binds, steps=steps)


def choose_next(steps: Sequence[CrowdStep], limits: CapacityLimits) -> int | None:
    """The next crowd to measure for the edge: the middle of the last kept and the first broken.

    None where they lie a tenth or one person apart, or where nothing has broken the limits yet.
    """
    ordered = sorted(steps, key=lambda step: step.people)
    broken = next((step for step in ordered if not limits.is_kept(step)), None)
    if broken is None:
        return None
    kept = max((step.people for step in ordered if step.people < broken.people), default=0)
    if broken.people - kept <= max(1, kept // 10):
        return None
    return (kept + broken.people) // 2


def measure_step(point: MeasuredPoint) -> CrowdStep:
    slowest = [_read_slow(each.tpot) for each in point.rounds]
    return CrowdStep(
        people=point.concurrency,
        first=_median([_read_slow(each.ttft) for each in point.rounds], point.rounds),
        speed=_median([1 / each if each else None for each in slowest], point.rounds),
        is_clean=not point.taints,
        conditions=point.conditions,
    )


def list_steps(points: Sequence[MeasuredPoint]) -> list[CrowdStep]:
    """Of the lengths that were asked by the most sizes of crowds; nothing where that is one size."""
    crowds: dict[tuple[int, int], dict[int, MeasuredPoint]] = {}
    for point in points:
        if point.prompt_tokens and not point.is_open_loop:
            crowd = crowds.setdefault((point.prompt_tokens, point.output_tokens), {})
            crowd[point.concurrency] = point
    chosen = max(crowds.values(), key=len, default={})
    return [measure_step(point) for point in chosen.values()] if len(chosen) > 1 else []


def _read_slow(spread: Spread | None) -> float | None:
    if spread is None:
        return None
    return spread.worst if spread.p90 is None else spread.p90


def _median(values: Sequence[float | None], rounds: Sequence[PointFigures]) -> float | None:
    """None where a request failed in most rounds: who got no answer has no speed."""
    failed = sum(bool(each.failed) for each in rounds)
    known = [each for each in values if each is not None]
    return median(known) if known and 2 * failed <= len(rounds) else None


def _find_binding(
    broken: CrowdStep, kept: CrowdStep | None, limits: CapacityLimits
) -> Sentence | None:
    """From the engine's own figures while the limits were broken."""
    seen = broken.conditions
    if any((each.lag or 0) > LATE for each in seen):
        return say("benchmarks.binds-client")
    most_kv = max((each.kv_share or 0.0 for each in seen), default=0.0)
    preempted = any(each.preemptions for each in seen)
    waiting = max((each.waiting or 0 for each in seen), default=0)
    running = max((each.running or 0 for each in seen), default=0)
    if preempted or (waiting and most_kv >= _FULL):
        return say("benchmarks.binds-kv", share=f"{100 * most_kv:.0f}")
    if waiting and running and running < broken.people:
        return say("benchmarks.binds-seats", running=running)
    if limits.keeps_speed(broken):
        return say("benchmarks.binds-prefill")
    alone = kept is None and broken.people == 1
    return say("benchmarks.binds-alone" if alone else "benchmarks.binds-decode")
