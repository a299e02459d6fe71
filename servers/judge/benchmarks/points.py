"""Points of a benchmark: what was asked of a server at once, and the figures that came of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from servers.host.benchmarks.timings import RequestTiming
from servers.judge.benchmarks.statistics import percentile
from servers.judge.benchmarks.timings import find_contradictions, find_window

LATE = 0.005  # seconds; a generator whose loop lags more measures itself
FEWEST = 3  # whole requests that say anything of a point
LEAST_READ = (
    1000  # tokens of a prompt, for a speed of reading: below, all is the first token's own time
)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """A figure over requests, in seconds. A percentile is None where too few requests lie beyond it."""

    median: float
    p90: float | None
    p99: float | None
    worst: float

    @classmethod
    def measure(cls, values: Iterable[float | None]) -> "Spread | None":
        """None where no request has the figure."""
        known = [value for value in values if value is not None]
        median = percentile(known, 0.5)
        if median is None:
            return None
        return cls(
            median=median,
            p90=percentile(known, 0.9),
            p99=percentile(known, 0.99),
            worst=max(known),
        )


@dataclass(frozen=True, kw_only=True)
class PointFigures:
    """Seconds, tokens a second, tokens; None where it cannot be told.

    `output_rate` is of all requests together in the steady window, or of the whole time where
    there was none (`is_steady`). `user_rate` is what one of them sees behind the first token.
    `prefill_rate` counts prompt tokens that were not cached, at concurrency 1 alone.
    """

    requests: int
    failed: int
    seconds: float
    is_steady: bool
    ttft: Spread | None
    tpot: Spread | None
    e2el: Spread | None
    gap: Spread | None
    output_rate: float | None
    user_rate: float | None
    prefill_rate: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    cached_share: float | None
    contradictions: tuple[str, ...]

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """Of what dataclasses.asdict() made."""
        spreads = {
            name: Spread(**said[name]) if said[name] else None
            for name in ("ttft", "tpot", "e2el", "gap")
        }
        return cls(**{**said, **spreads, "contradictions": tuple(said["contradictions"])})


def summarise(
    requests: Sequence[RequestTiming], *, concurrency: int, base: float = 0.0
) -> PointFigures:
    """The figures of one point. `base` is the time to the first token of a prompt of one token.

    Raises ValueError for no request.
    """
    if not requests:
        raise ValueError("A point has at least one request.")
    whole = [each for each in requests if each.is_whole]
    begin = min(each.sent for each in requests)
    end = max((each.stamps[-1] for each in whole), default=begin)
    window = find_window(requests, concurrency)
    start, stop = window or (begin, end)
    tpot = Spread.measure(each.tpot for each in whole)
    return PointFigures(
        requests=len(requests),
        failed=len(requests) - len(whole),
        seconds=end - begin,
        is_steady=window is not None,
        ttft=Spread.measure(each.ttft for each in whole),
        tpot=tpot,
        e2el=Spread.measure(each.e2el for each in whole),
        gap=Spread.measure(gap for each in whole for gap in each.gaps),
        output_rate=_rate(whole, start, stop),
        user_rate=1 / tpot.median if tpot and tpot.median > 0 else None,
        prefill_rate=_prefill(whole, base) if concurrency == 1 else None,
        prompt_tokens=_total(each.prompt_tokens for each in whole),
        output_tokens=_total(each.output_tokens for each in whole),
        cached_share=_find_cached_share(whole),
        contradictions=tuple(
            sorted({name for each in whole for name in find_contradictions(each)})
        ),
    )


def _rate(whole: Sequence[RequestTiming], start: float, stop: float) -> float | None:
    if stop <= start:
        return None
    return sum(each.count_tokens(start, stop) for each in whole) / (stop - start)


def _prefill(whole: Sequence[RequestTiming], base: float) -> float | None:
    read = [
        (each.prompt_tokens - (each.cached_tokens or 0), each.ttft - base)
        for each in whole
        if each.prompt_tokens is not None and each.ttft is not None and each.ttft > base
    ]
    rates = [tokens / seconds for tokens, seconds in read if tokens >= LEAST_READ]
    return percentile(rates, 0.5)


def _total(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if not known or None in known else sum(count or 0 for count in known)


def _find_cached_share(whole: Sequence[RequestTiming]) -> float | None:
    """Of the prompts' tokens; None where the server tells nothing of its cache, which is not 0."""
    known = [each for each in whole if each.cached_tokens is not None and each.prompt_tokens]
    prompts = sum(each.prompt_tokens or 0 for each in known)
    return sum(each.cached_tokens or 0 for each in known) / prompts if prompts else None


@dataclass(frozen=True, kw_only=True)
class PointConditions:
    """What else happened while a point was measured. None: nobody could see it."""

    lag: float | None = None  # seconds, the 99th percentile of the generator's event loop
    requests_of_others: int | None = None
    other_engines: int | None = None  # on the same cards
    throttled_share: float | None = None  # of the time, for heat or a power limit
    preemptions: int | None = None
    running: int | None = None  # requests at most that the engine worked on at once
    waiting: int | None = None  # at most behind them
    kv_share: float | None = None  # of the KV cache at most, 0 to 1
    swapped: int | None = None  # bytes


# By the names of timings.find_contradictions.
_IDENTITIES = {
    "time-order": "benchmarks.identity-time-order",
    "sent-before-planned": "benchmarks.identity-sent-before-planned",
    "more-events-than-tokens": "benchmarks.identity-more-events-than-tokens",
    "more-cached-than-prompt": "benchmarks.identity-more-cached-than-prompt",
}


def list_taints(figures: PointFigures, conditions: PointConditions) -> list[str]:
    """Why a point is not clean, as codes of messages; nothing for a clean one.

    What could not be seen taints nothing, and is told apart by who shows it.
    """
    found = [_IDENTITIES[name] for name in figures.contradictions]
    if figures.failed:
        found.append("benchmarks.failed-requests")
    if figures.requests - figures.failed < FEWEST:
        found.append("benchmarks.few-requests")
    if (conditions.lag or 0) > LATE:
        found.append("benchmarks.client-lag")
    if conditions.requests_of_others:
        found.append("benchmarks.others")
    if conditions.other_engines:
        found.append("benchmarks.other-engine")
    if (conditions.throttled_share or 0) > 0.1:
        found.append("benchmarks.throttled")
    if conditions.preemptions:
        found.append("benchmarks.preemptions")
    if conditions.swapped:
        found.append("benchmarks.swap")
    return found


def list_point_taints(rounds: Sequence[tuple[PointFigures, PointConditions]]) -> list[str]:
    """Why a point of several rounds is not clean: what tainted any of them. Requests count together."""
    few = "benchmarks.few-requests"
    found = {code for each in rounds for code in list_taints(*each)} - {few}
    whole = sum(figures.requests - figures.failed for figures, _conditions in rounds)
    return sorted(found | ({few} if whole < FEWEST else set()))
