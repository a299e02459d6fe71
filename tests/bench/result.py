"""What a bench says: one figure beside its limit."""

import json
import statistics
import sys
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    name: str
    value: float
    unit: str
    limit: float
    is_floor: bool = False  # whether the limit is the least rather than the most

    @property
    def ok(self) -> bool:
        return self.value >= self.limit if self.is_floor else self.value <= self.limit

    def line(self) -> str:
        said = {"name": self.name, "value": round(self.value, 3), "unit": self.unit}
        return json.dumps({**said, "limit": self.limit, "ok": self.ok})


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
