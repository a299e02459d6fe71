"""Presets of check-ups, as presets.yaml has them, and the prompts of their points."""

import itertools
import lzma
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from servers.judge.benchmarks.replay import ReplayedRequest

_FOLDER = Path(__file__).parent
_TASK = "\n\nSummarise what you have read, in as much detail as you can."
_GROWS = 1.05  # times the point before: less is called saturated


@dataclass(frozen=True, kw_only=True)
class PresetPoint:
    """`text` is asked as it stands; "": so many tokens of the book, `prompt_tokens`.

    `requests` and `seconds` bound one round. `saturates`: the points behind it are left out once
    more people at once bring no more tokens. `searches`: between the last size that keeps the usual
    limits of waiting and speed and the first that does not, more sizes are measured. `turns`: of as many conversations as `requests`, each
    with a first prompt of its own and `follow_tokens` a turn from then on. `rate`: requests a second
    (Poisson) instead of `concurrency` at once. `replay`: a round's requests, round by round.
    """

    name: str
    text: str
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    rounds: int
    requests: int
    seconds: float
    saturates: bool
    searches: bool = False
    turns: int = 1
    follow_tokens: int = 0
    rate: float | None = None
    replay: "tuple[tuple[ReplayedRequest, ...], ...]" = ()

    @property
    def longest(self) -> int:
        """Tokens of its longest prompt with the answer; counts of prompts are off by a little."""
        talk = (self.turns - 1) * (self.follow_tokens + self.output_tokens)
        return round(1.05 * (self.prompt_tokens + talk)) + self.output_tokens


@dataclass(frozen=True, kw_only=True)
class BenchmarkPreset:
    """`is_depth`: a button of its own; the others stand behind More."""

    key: str
    version: int
    title: str
    answers: str
    is_depth: bool
    limit_seconds: float
    limit_requests: int
    points: tuple[PresetPoint, ...]

    @property
    def rounds(self) -> int:
        return sum(point.rounds for point in self.points)


@cache
def load_presets() -> Mapping[str, BenchmarkPreset]:
    """By key, in the order of the file."""
    said = yaml.safe_load((_FOLDER / "presets.yaml").read_text())
    return {each["key"]: _read_preset(each) for each in said}


def _read_preset(said: Mapping[str, Any]) -> BenchmarkPreset:
    points = tuple(point for each in said["points"] for point in _expand(each))
    return BenchmarkPreset(**{"is_depth": False, **said, "points": points})


def _expand(said: Mapping[str, Any]) -> Iterator[PresetPoint]:
    for prompt, concurrency in itertools.product(
        _as_list(said.get("prompt", 0)), _as_list(said["concurrency"])
    ):
        yield PresetPoint(
            name=said["name"],
            text=said.get("text", ""),
            prompt_tokens=prompt,
            output_tokens=said["output"],
            concurrency=concurrency,
            rounds=said["rounds"],
            requests=said["requests"],
            seconds=said["seconds"],
            saturates=said.get("saturates", False),
            searches=said.get("searches", False),
            turns=said.get("turns", 1),
            follow_tokens=said.get("follow", 0),
        )


def _as_list(value: int | list[int]) -> list[int]:
    return value if isinstance(value, list) else [value]


@cache
def read_book() -> str:
    return lzma.decompress((_FOLDER / "text" / "opticks.txt.xz").read_bytes()).decode()


def write_prompts(
    point: PresetPoint, count: int, *, letters: float, chance: random.Random
) -> tuple[str, ...]:
    """So many different prompts. `letters` a token, as the server counted.

    Each begins with a number of its own: caches match from the first token on, and what one
    round has asked must not make the next one fast.
    """
    return tuple(
        f"{chance.getrandbits(40):x}. {_write(point, letters, chance)}" for _ in range(count)
    )


def _write(point: PresetPoint, letters: float, chance: random.Random) -> str:
    if point.text:
        return point.text
    wanted = round(point.prompt_tokens * letters) - len(_TASK)
    return read_stretch(chance.randrange(len(read_book())), wanted) + _TASK


def read_stretch(begin: int, letters: int) -> str:
    """So many letters of the book, one at least, from a place on; it begins anew at its end."""
    book = read_book()
    begin, letters = begin % len(book), max(1, letters)
    copies = (begin + letters) // len(book) + 1
    return (book * copies)[begin : begin + letters]


def is_saturated(rates: Sequence[float | None]) -> bool:
    """Whether the last of these points, each of more people at once, brought no more tokens a second."""
    known = [rate for rate in rates if rate is not None]
    return len(known) > 1 and known[-1] < _GROWS * known[-2]
