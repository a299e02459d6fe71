"""Verdicts on the timings of requests: contradictions in them, and the steady part of a point."""

from collections.abc import Sequence

from servers.host.benchmarks.timings import RequestTiming

# What two clocks of one process may differ by, and what the last event may come late.
SLACK = 0.002  # seconds


def find_contradictions(request: RequestTiming) -> list[str]:
    """Identities that a measured request breaks, by name: its figures cannot be right then.

    Source: inference-perf, docs/troubleshooting.md.
    """
    found = []
    if any(gap < 0 for gap in request.gaps):
        found.append("time-order")
    if request.sent < request.planned - SLACK or (request.ttft or 0.0) < 0:
        found.append("sent-before-planned")
    # Some engines send an empty event, or a character in two: a quarter more is no rounding.
    tokens = request.output_tokens
    if tokens is not None and len(request.stamps) > tokens * 1.25 + 2:
        found.append("more-events-than-tokens")
    if (
        request.cached_tokens is not None
        and request.prompt_tokens is not None
        and request.cached_tokens > request.prompt_tokens
    ):
        found.append("more-cached-than-prompt")
    return found


def find_window(requests: Sequence[RequestTiming], concurrency: int) -> tuple[float, float] | None:
    """The steady part of a closed loop: from when all were in flight to when one was not replaced.

    None where that never was, as with fewer requests than twice the concurrency.
    """
    whole = sorted((each for each in requests if each.is_whole), key=lambda each: each.sent)
    if len(whole) < 2 * concurrency:
        return None
    begin = whole[concurrency - 1].sent
    # The last one that was sent; from the next end on fewer are in flight.
    last_sent = whole[-1].sent
    ends = [each.stamps[-1] for each in whole if each.stamps[-1] > last_sent]
    end = min(ends, default=last_sent)
    return (begin, end) if end > begin else None
