"""Fingerprints: the first greedy tokens of fixed prompts, compared with those of an earlier run.

The same build gives other tokens now and then: kernels add in another order, another batch has
another shape, and where two tokens are nearly as likely, the other one wins. Then both are among
the most likely of either run, and the probabilities of all tokens before are nearly the same.
Damage, and another quantization, move the probabilities themselves.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

from servers.host.canary.replies import CanaryReply, ReplyToken

type Finding = Literal["same", "noise", "changed", "foreign", "unknown"]

# Natural logs. Two builds of one model in bfloat16 differ by 0.01 to 0.02 on the average; FP8 in
# place of it by 0.05 and more. Two tokens that are apart by less than TIE may change places.
TIE = 0.3
SHIFTED = 0.05
# What the model once took for improbable by so much is not its own answer any more.
FOREIGN = 4.0
FOREIGN_SHIFT = 1.0
# Times what the same run differs from itself.
OWN = 3.0
# Of all prompts, without logprobs: so many may go another way, or the answers are others.
FEW, MOST = 0.35, 0.75
EARLY = 8  # tokens, or 4 times as many characters, within which an answer hardly branches by chance


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Where two answers to a prompt part: `place` counts tokens, or characters, from 0.

    `gap` is how much less likely the new token was in the earlier run (natural log); None: not
    told, `is_outside`: it was not even among the most likely ones, and less likely than `gap` says.
    """

    key: str
    place: int
    in_tokens: bool
    before: str
    after: str
    gap: float | None = None
    is_outside: bool = False


@dataclass(frozen=True, kw_only=True)
class FingerprintDifference:
    """`finding` "foreign": as far off as another model's answers. `shift`: by how much tokens that are the same differ in their logprob, on the average; `own`:
    the same of one run's repeats. None: not told."""

    finding: Finding
    prompts: int
    branches: tuple[Branch, ...] = ()
    shift: float | None = None
    own: float | None = None

    @property
    def first(self) -> Branch | None:
        """The most telling: the farthest from a tie, else the earliest."""
        return max(self.branches, key=lambda each: (each.gap or 0.0, -each.place), default=None)


type Answers = Mapping[str, Sequence[CanaryReply]]  # by key of the item, its repeats


def compare_fingerprints(before: Answers, after: Answers) -> FingerprintDifference:
    """Of the prompts that both have answered."""
    keys = [key for key in after if _are_whole(after[key]) and _are_whole(before.get(key, ()))]
    pairs = {key: (before[key][0], after[key][0]) for key in keys}
    branches = tuple(
        found for key, (one, other) in pairs.items() if (found := find_branch(key, one, other))
    )
    known = [pair for pair in pairs.values() if pair[0].tokens and pair[1].tokens]
    own = _measure_own([*(before[key] for key in keys), *(after[key] for key in keys)])
    shift = _measure_shift(known)
    if not pairs:
        finding: Finding = "unknown"
    elif len(known) == len(pairs):
        finding = _judge_probabilities(branches, len(pairs), shift or 0.0, own or 0.0)
    else:
        finding = _judge_places(branches, len(pairs), _count_unsteady(keys, before, after))
    return FingerprintDifference(
        finding=finding, prompts=len(pairs), branches=branches, shift=shift, own=own
    )


def _are_whole(replies: Sequence[CanaryReply]) -> bool:
    return bool(replies) and not any(each.error for each in replies)


def find_branch(key: str, before: CanaryReply, after: CanaryReply) -> Branch | None:
    """None where one answer is the other, as far as both go."""
    if before.tokens and after.tokens:
        for place, (one, other) in enumerate(zip(before.tokens, after.tokens, strict=False)):
            if one.text != other.text:
                gap, is_outside = _measure_gap(one, other.text)
                return Branch(
                    key=key, place=place, in_tokens=True, gap=gap, is_outside=is_outside,
                    before=_quote_tokens(before.tokens, place),
                    after=_quote_tokens(after.tokens, place),
                )  # fmt: skip
        return None
    one_text, other_text = (each.reasoning + each.text for each in (before, after))
    for place, (was, now) in enumerate(zip(one_text, other_text, strict=False)):
        if was != now:
            return Branch(
                key=key, place=place, in_tokens=False, before=one_text[place : place + 40],
                after=other_text[place : place + 40],
            )  # fmt: skip
    return None


def _quote_tokens(tokens: Sequence[ReplyToken], place: int) -> str:
    return "".join(each.text for each in tokens[place : place + 8])


def _measure_gap(chosen: ReplyToken, other: str) -> tuple[float | None, bool]:
    """How much less likely `other` was, and whether it was less likely than any that is told."""
    if other in chosen.others:
        return max(0.0, chosen.logprob - chosen.others[other]), False
    if len(chosen.others) < 2:
        return None, False
    return max(0.0, chosen.logprob - min(chosen.others.values())), True


def _measure_shift(pairs: Sequence[tuple[CanaryReply, CanaryReply]]) -> float | None:
    """Of tokens that are the same, and the first one that is not: up to there both have read the
    same text."""
    moved = [
        abs(one.logprob - other.others.get(one.text, min(other.others.values())))
        for before, after in pairs
        for one, other in _list_common(before.tokens, after.tokens)
        if math.isfinite(one.logprob) and math.isfinite(other.logprob)
    ]
    return fmean(moved) if moved else None


def _list_common(
    before: Sequence[ReplyToken], after: Sequence[ReplyToken]
) -> list[tuple[ReplyToken, ReplyToken]]:
    found = []
    for one, other in zip(before, after, strict=False):
        found.append((one, other))
        if one.text != other.text:
            break
    return found


def _measure_own(repeats: Sequence[Sequence[CanaryReply]]) -> float | None:
    return _measure_shift([(each[0], each[1]) for each in repeats if len(each) > 1])


def _judge_probabilities(
    branches: Sequence[Branch], prompts: int, shift: float, own: float
) -> Finding:
    tie = max(TIE, OWN * own)
    far = [each for each in branches if each.is_outside or (each.gap or 0.0) > tie]
    foreign = [each for each in far if (each.gap or 0.0) > FOREIGN]
    if len(foreign) > prompts / 2 or shift > FOREIGN_SHIFT:
        return "foreign"
    # One that is far may be a near tie whose logprobs an engine rounds; two are none.
    if shift > max(SHIFTED, OWN * own) or len(far) > 1 or foreign:
        return "changed"
    return "noise" if branches else "same"


def _count_unsteady(keys: Sequence[str], before: Answers, after: Answers) -> int:
    """Prompts to which one of the runs gave two answers itself."""
    return sum(
        any(
            find_branch(key, each[0], again) for each in (before[key], after[key]) for again in each
        )
        for key in keys
    )


def _judge_places(branches: Sequence[Branch], prompts: int, unsteady: int) -> Finding:
    """Without probabilities: how many branch, how early, and whether a run does so by itself."""
    if not branches:
        return "same"
    share = (len(branches) - unsteady) / prompts
    is_early = median(_count_tokens(each) for each in branches) < EARLY
    if share >= MOST and is_early:
        return "changed"
    return "noise" if share <= FEW else "unknown"


def _count_tokens(branch: Branch) -> float:
    return branch.place if branch.in_tokens else branch.place / 4
