"""Points of an editor's own: lengths of prompts, and people at once or arrivals a second."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from servers.judge.benchmarks.presets import BenchmarkPreset, PresetPoint

KEY, VERSION = "custom", 1
_EACH = 50  # requests of one of the people in a round, at the most
_SPARE = 120.0  # seconds for counting, warming up and answers
_ROOM = 2.0  # times what is planned, for rounds that are measured once more


@dataclass(frozen=True, kw_only=True)
class CustomPoints:
    """Every length with every number of people; with `rates` (requests a second, Poisson) instead
    of people."""

    prompts: tuple[int, ...]  # tokens
    output: int  # tokens
    people: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    rounds: int = 3
    seconds: float = 20.0

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        lists = {name: tuple(said[name]) for name in ("prompts", "people", "rates")}
        return cls(**{**said, **lists})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def count(self) -> int:
        return len(self.prompts) * max(len(self.people), len(self.rates))

    @property
    def planned(self) -> float:
        """Seconds, without warm-ups."""
        return self.count * self.rounds * self.seconds


def build_custom(wanted: CustomPoints) -> BenchmarkPreset:
    points = tuple(
        _build_point(wanted, prompt, people, rate)
        for prompt in wanted.prompts
        for people, rate in [
            *((people, None) for people in wanted.people),
            *((1, rate) for rate in wanted.rates),
        ]
    )
    return BenchmarkPreset(
        key=KEY, version=VERSION, title="Custom", answers="", is_depth=False,
        limit_seconds=_ROOM * wanted.planned + _SPARE,
        limit_requests=sum(
            2 * each.requests * each.rounds + each.concurrency for each in points
        ) + 100,
        points=points,
    )  # fmt: skip


def _build_point(wanted: CustomPoints, prompt: int, people: int, rate: float | None) -> PresetPoint:
    # Twice the mean: chance brings more than that in no round of a few seconds.
    requests = people * _EACH if rate is None else math.ceil(2 * rate * wanted.seconds) + 10
    return PresetPoint(
        name="Custom" if rate is None else f"{rate:g} a second", text="", prompt_tokens=prompt,
        output_tokens=wanted.output, concurrency=people, rounds=wanted.rounds, requests=requests,
        seconds=wanted.seconds, saturates=False, rate=rate,
    )  # fmt: skip
