"""Promises of a profile's source: its expected figures as numbers, and what was measured of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from servers.judge.benchmarks.comparison import FIGURES, BenchmarkFigure, MeasuredPoint
from servers.launch.engines.change import compare_launches
from servers.launch.engines.launch import Launch
from servers.launch.engines.placement import describe_gpu_requirement, parse_gpu_requirement

_NUMBER = r"([0-9][0-9_,.]*)"
_RANGE = re.compile(rf"{_NUMBER}(?:\s*[-–]\s*{_NUMBER})?\s*(ms|s)?(?![0-9])")  # noqa: RUF001
_AT = re.compile(rf"{_NUMBER}\s+at\s+([0-9]+)\s*[kK]\b")
# By the name that sources give it, in any case.
_NAMES: Mapping[str, str] = {
    "tokens per second": "user_rate",
    "generation tokens per second": "user_rate",
    "decode tokens per second": "user_rate",
    "prompt tokens per second": "prefill_rate",
    "first token": "ttft",
    "time to first token": "ttft",
}
# What a source says of itself makes nothing slower.
_WORDS = ("expected", "hardware", "reasons", "digests", "parameters")
_NEAR = 1.3  # times as long as the length that a source names


@dataclass(frozen=True, kw_only=True)
class KeptPromise:
    """`least` and `most` in the figure's unit, `words` as the source has them."""

    figure: BenchmarkFigure
    point: MeasuredPoint
    words: str
    least: float
    most: float
    measured: float

    @property
    def share(self) -> float:
        """Of the least that was promised, 1 and more where it is kept."""
        if self.figure.more_is_better:
            return self.measured / self.least
        return self.most / self.measured


def compare_promises(
    expected: Mapping[str, str], points: Sequence[MeasuredPoint]
) -> list[KeptPromise]:
    """Of one person's figures; what a source says in other words is left out."""
    alone = [each for each in points if each.is_alone and not each.taints]
    found = []
    for name, words in expected.items():
        key = _NAMES.get(name.strip().lower())
        figure = next((each for each in FIGURES if each.key == key), None)
        if figure is None:
            continue
        for least, most, length in _read(words):
            if (kept := _find(figure, alone, length)) is not None:
                point, measured = kept
                found.append(
                    KeptPromise(
                        figure=figure, point=point, words=words[:80], least=least, most=most,
                        measured=measured,
                    )
                )  # fmt: skip
    return found


def mean_share(kept: Sequence[KeptPromise]) -> float | None:
    """Of all that was promised, the geometric mean of the shares; None: nothing can be compared."""
    return geometric_mean(each.share for each in kept) if kept else None


def list_departures(published: Launch, ran: Launch, on: Mapping[str, Any]) -> list[str]:
    """In what a result was measured otherwise than its source: GPUs, then fields of the launch,
    flags and variables. `on`: what it was measured on. No values of flags: keys may be among them."""
    found = []
    cards = [(str(each.get("name") or ""), "") for each in on.get("cards") or ()]
    wanted = parse_gpu_requirement(published.hardware)
    if cards and published.hardware:
        are_such = wanted is not None and all(wanted.fits(each) for each in cards)
        if wanted is None or wanted.count != len(cards) or not are_such:
            here = describe_gpu_requirement(cards)
            found.append(f"GPUs ({published.hardware}; here {here})")
    names = [
        "image" if each.part == "image" else each.name.replace("_", " ")
        for each in compare_launches(published, ran)
        if each.part not in _WORDS and each.before != each.after
    ]
    return found + list(dict.fromkeys(names))


def _find(
    figure: BenchmarkFigure, points: Sequence[MeasuredPoint], length: int | None
) -> tuple[MeasuredPoint, float] | None:
    for point in points:
        if length and not length / _NEAR <= point.prompt_tokens <= length * _NEAR:
            continue
        if (estimated := point.estimate(figure)) is not None:
            return point, estimated.mean
    return None


def _read(words: str) -> list[tuple[float, float, int | None]]:
    """Least, most, and the prompt's length in tokens where it names one."""
    if pairs := _AT.findall(words):
        return [(_number(value), _number(value), 1000 * int(length)) for value, length in pairs]
    match = _RANGE.match(words.strip())
    if match is None:
        return []
    scale = 0.001 if match[3] == "ms" else 1.0
    low = _number(match[1])
    high = _number(match[2]) if match[2] else low
    return [(scale * low, scale * high, None)] if 0 < low <= high else []


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("_", "").rstrip("."))
