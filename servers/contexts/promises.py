"""What sources of profiles promise, beside what was measured: of one result, and of several compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from servers.judge.benchmarks.comparison import MeasuredPoint
from servers.judge.benchmarks.promises import (
    KeptPromise,
    compare_promises,
    list_departures,
    mean_share,
)
from servers.models import Benchmark
from servers.models.profiles import ProfileVersion

ENOUGH = 0.95  # of a promise: sources round their figures


@dataclass(frozen=True, kw_only=True)
class PromiseRow:
    """What a profile's source promises of a figure, in its words, and what was measured."""

    title: str
    unit: str
    point: str
    words: str
    measured: str
    share: str  # "71 %"
    is_kept: bool


@dataclass(frozen=True, kw_only=True)
class PromisedResult:
    """A compared result beside its profile's source. `author`: it was published by somebody else."""

    letter: str
    share: str
    is_kept: bool
    has_author: bool
    rows: tuple[PromiseRow, ...]
    departures: tuple[str, ...]


def list_promises(benchmark: Benchmark, points: Sequence[MeasuredPoint]) -> list[PromiseRow]:
    """What one person gets of what the profile's source promises."""
    return [_build_row(each) for each in _compare(benchmark, points)]


def list_promised(
    results: Sequence[tuple[str, Benchmark, Sequence[MeasuredPoint]]],
) -> list[PromisedResult]:
    """Of those whose profile has a source that promises something of what was measured."""
    kept = {letter: _compare(benchmark, points) for letter, benchmark, points in results}
    profiles = [
        each.version.profile_id
        for letter, each, _points in results
        if kept[letter] and each.version is not None
    ]
    first = ProfileVersion.objects.filter(profile__in=profiles, number=1)
    published = {each.profile_id: each for each in first}
    found = []
    for letter, benchmark, _points in results:
        share, version = mean_share(kept[letter]), benchmark.version
        if share is None or version is None:
            continue
        # As it was taken over; without it nobody knows what has been changed since.
        source = published.get(version.profile_id, version)
        found.append(
            PromisedResult(
                letter=letter,
                share=_format_share(share),
                is_kept=share >= ENOUGH,
                has_author=bool(version.profile.source),
                rows=tuple(_build_row(each) for each in kept[letter]),
                departures=tuple(
                    list_departures(source.launch, version.launch, benchmark.measured_on)
                ),
            )
        )
    return found


def _compare(benchmark: Benchmark, points: Sequence[MeasuredPoint]) -> list[KeptPromise]:
    if benchmark.version is None:
        return []
    return compare_promises(benchmark.version.launch.expected, points)


def _build_row(each: KeptPromise) -> PromiseRow:
    return PromiseRow(
        title=each.figure.title,
        unit="" if each.figure.unit == "s" else each.figure.unit,
        point=each.point.label,
        words=each.words,
        measured=each.figure.format(each.measured),
        share=_format_share(each.share),
        is_kept=each.share >= ENOUGH,
    )


def _format_share(share: float) -> str:
    return f"{100 * share:.0f} %"
