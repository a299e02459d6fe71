"""Timings of one benchmark request, and the figures that follow from them.

Definitions as those of vLLM's `bench serve`, NVIDIA AIPerf and MLPerf Endpoints, where these agree;
docs/benchmarks.md says where they do not, and which one is used here.
"""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, kw_only=True)
class RequestTiming:
    """One request as the generator saw it. Moments are seconds of the generator's monotonic clock.

    `planned` is when it was to be sent: in a closed loop the moment that it was. `stamps` are the
    moments of the events that carried text: content, reasoning or a tool call. `first_visible` is
    that of the first one that a reader sees; None: there was none. Tokens are the server's own
    counts; None: it told none. `error` is why it failed, "" otherwise.
    """

    planned: float
    sent: float
    stamps: tuple[float, ...] = ()
    first_visible: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    error: str = ""

    @property
    def is_whole(self) -> bool:
        return not self.error and bool(self.stamps)

    @property
    def ttft(self) -> float | None:
        """Seconds to the first event with text; None where there was none."""
        return self.stamps[0] - self.planned if self.stamps else None

    @property
    def ttfo(self) -> float | None:
        """Seconds to the first event that a reader sees; None where all was reasoning."""
        return None if self.first_visible is None else self.first_visible - self.planned

    @property
    def e2el(self) -> float | None:
        """Seconds to the last event with text, not to the usage or [DONE] behind it."""
        return self.stamps[-1] - self.planned if self.stamps else None

    @property
    def tpot(self) -> float | None:
        """Seconds a token behind the first one; None for less than two tokens, or without counts."""
        if not self.stamps or self.output_tokens is None or self.output_tokens < 2:
            return None
        return (self.stamps[-1] - self.stamps[0]) / (self.output_tokens - 1)

    @property
    def gaps(self) -> list[float]:
        """Seconds between events. With speculative decoding one carries several tokens."""
        return [later - earlier for earlier, later in pairwise(self.stamps)]

    def count_tokens(self, begin: float, end: float) -> float:
        """Tokens that arrived in [begin, end), each event carrying as many as the others.

        Without the server's count an event counts as one token.
        """
        if not self.stamps:
            return 0.0
        each = (self.output_tokens or len(self.stamps)) / len(self.stamps)
        return each * sum(begin <= stamp < end for stamp in self.stamps)
