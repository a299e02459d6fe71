"""Rounds as they were taken: figures, conditions and requests, as rows of a point keep them."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from servers.host.benchmarks.timings import RequestTiming
from servers.judge.benchmarks.points import PointConditions, PointFigures, list_point_taints
from servers.judge.benchmarks.presets import PresetPoint
from servers.models import Benchmark, BenchmarkPoint


@dataclass(frozen=True, kw_only=True)
class TakenRound:
    at: float  # unix seconds
    figures: PointFigures
    conditions: PointConditions
    requests: tuple[RequestTiming, ...]

    @property
    def has_failed(self) -> bool:
        return self.figures.requests == self.figures.failed


def keep_point(
    benchmark: Benchmark, place: int, point: PresetPoint, turn: int, taken: Sequence[TakenRound]
) -> None:
    """Of a conversation the point of one turn, from 0."""
    keep_rounds(
        benchmark, place, taken,
        name=f"Turn {turn + 1}" if point.turns > 1 else point.name,
        concurrency=point.concurrency,
        prompt_tokens=0 if point.turns > 1 else point.prompt_tokens,
        output_tokens=point.output_tokens,
    )  # fmt: skip


def keep_rounds(
    benchmark: Benchmark, place: int, taken: Sequence[TakenRound], **shape: Any
) -> None:
    """As a point; `shape` by the names of its columns."""
    BenchmarkPoint.objects.create(
        benchmark=benchmark,
        place=place,
        **shape,
        rounds=[
            {
                "at": each.at,
                "figures": dataclasses.asdict(each.figures),
                "conditions": dataclasses.asdict(each.conditions),
            }
            for each in taken
        ],
        requests=[_pack_requests(each.requests) for each in taken],
        taints=list_point_taints([(each.figures, each.conditions) for each in taken]),
    )


def _pack_requests(timings: Sequence[RequestTiming]) -> list[dict[str, Any]]:
    """Without the moment of each event: some hundred requests of some hundred tokens are megabytes."""
    begin = min((each.sent for each in timings), default=0.0)
    return [
        {
            "sent": round(each.sent - begin, 6),
            "ttft": each.ttft,
            "e2el": each.e2el,
            "events": len(each.stamps),
            "prompt_tokens": each.prompt_tokens,
            "output_tokens": each.output_tokens,
            "cached_tokens": each.cached_tokens,
            "error": each.error,
        }
        for each in timings
    ]
