"""Replays: the lengths, times and chains of requests of the past, as a plan of new ones."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from servers.judge.benchmarks.presets import BenchmarkPreset, PresetPoint, read_stretch

KEY, VERSION = "replay", 1
MOST = 5000  # requests
PART = 60.0  # seconds: a part is a round, and what others disturb is left out
_GOES_ON = 1800.0  # seconds after which nobody's next request belongs to the one before
_SHARE = 0.5  # of an earlier prompt that was cached, where the engine told
_SPARE = 300.0  # seconds for answers, counting and pauses


@dataclass(frozen=True, kw_only=True)
class PastRequest:
    """`asker` is whoever sent it, in whatever form; `cached_tokens` None: the engine told none."""

    at: float  # seconds
    asker: tuple[int | None, ...]
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReplayedRequest:
    """`talk`: requests of one number begin with the same text."""

    at: float  # seconds after the begin of its part
    prompt_tokens: int
    output_tokens: int
    talk: int


def build_replay(
    past: Sequence[PastRequest], *, pace: float, is_random: bool, chance: random.Random
) -> BenchmarkPreset | None:
    """None for no request. `pace` 2.0: twice as fast. `is_random`: at random moments (Poisson) at
    the same rate, in the same order, instead of at their own."""
    found = sorted(past, key=lambda each: each.at)[:MOST]
    if not found:
        return None
    begin = found[0].at
    moments = [(each.at - begin) / pace for each in found]
    if is_random:
        moments = sorted(chance.uniform(0.0, moments[-1]) for _ in moments)
    parts: dict[int, list[ReplayedRequest]] = {}
    for moment, request, talk in zip(moments, found, _find_talks(found), strict=True):
        parts.setdefault(int(moment // PART), []).append(
            ReplayedRequest(
                at=moment % PART,
                prompt_tokens=request.prompt_tokens,
                output_tokens=max(1, request.output_tokens),
                talk=talk,
            )
        )
    point = PresetPoint(
        name="Replay", text="", prompt_tokens=0, output_tokens=0, concurrency=1,
        rounds=len(parts), requests=max(map(len, parts.values())), seconds=PART,
        saturates=False, replay=tuple(tuple(part) for part in parts.values()),
    )  # fmt: skip
    return BenchmarkPreset(
        key=KEY, version=VERSION, title="Replay", answers="", is_depth=False,
        limit_seconds=2 * PART * len(parts) + _SPARE, limit_requests=len(found) + 100,
        points=(point,),
    )  # fmt: skip


def _find_talks(past: Sequence[PastRequest]) -> Iterator[int]:
    """A number a conversation. A request goes on with its asker's earlier one where its prompt has
    room for that and its answer, and the engine does not say that it had to read it anew."""
    last: dict[tuple[int | None, ...], list[tuple[int, PastRequest]]] = {}
    count = 0
    for request in past:
        earlier = last.setdefault(request.asker, [])
        held = [each for each in earlier if _goes_on(request, each[1])]
        if held:
            # The longest that it may contain.
            before = max(held, key=lambda each: each[1].prompt_tokens)
            earlier.remove(before)
            number = before[0]
        else:
            number, count = count, count + 1
        earlier.append((number, request))
        yield number


def _goes_on(request: PastRequest, before: PastRequest) -> bool:
    if request.at - before.at > _GOES_ON:
        return False
    if request.prompt_tokens < before.prompt_tokens + before.output_tokens:
        return False
    cached = request.cached_tokens
    return cached is None or cached >= _SHARE * before.prompt_tokens


class ReplayWriter:
    """Prompts of a replay: text of the book in the place of people's, which nobody has kept."""

    def __init__(self, *, letters: float, chance: random.Random) -> None:
        self._letters, self._chance = letters, chance
        self._heads: dict[int, tuple[str, int]] = {}

    def write(self, request: ReplayedRequest) -> str:
        if request.talk not in self._heads:
            number, place = self._chance.getrandbits(40), self._chance.getrandbits(20)
            self._heads[request.talk] = f"{number:x}. ", place
        head, place = self._heads[request.talk]
        return head + read_stretch(place, round(request.prompt_tokens * self._letters))


def cut_replay(point: PresetPoint, longest: int | None) -> PresetPoint:
    """Without requests that are longer than the engine allows now; other points as they are."""
    if longest is None or not point.replay:
        return point
    parts = [
        tuple(each for each in part if each.prompt_tokens + each.output_tokens < longest)
        for part in point.replay
    ]
    kept = tuple(part for part in parts if part)
    return replace(point, replay=kept, rounds=len(kept))
