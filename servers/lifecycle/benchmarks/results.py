"""Results of check-ups, read from their rows."""

from collections.abc import Iterable

from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.points import PointConditions, PointFigures
from servers.models import Benchmark, BenchmarkPoint


def read_points(benchmark: Benchmark) -> list[MeasuredPoint]:
    """Without single requests, which only an export reads; sizes of a crowd in their order."""
    points = read_rows(benchmark.points.defer("requests"))
    names = list(dict.fromkeys(point.name for point in points))
    return sorted(
        points, key=lambda each: (names.index(each.name), each.prompt_tokens, each.concurrency)
    )


def read_rows(rows: Iterable[BenchmarkPoint]) -> list[MeasuredPoint]:
    return [
        MeasuredPoint(
            name=row.name,
            concurrency=row.concurrency,
            prompt_tokens=row.prompt_tokens,
            output_tokens=row.output_tokens,
            rounds=tuple(PointFigures.from_json(each["figures"]) for each in row.rounds),
            taints=tuple(row.taints),
            conditions=tuple(PointConditions(**each["conditions"]) for each in row.rounds),
        )
        for row in rows
    ]
