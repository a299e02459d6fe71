"""Verdicts on trials of upgrades: keep what is new, go back, or neither can be told."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from servers.judge.benchmarks.comparison import MeasuredPoint, SpeedChange, compare_speed
from servers.judge.benchmarks.statistics import FigureDifference
from servers.judge.messages import Sentence, say

type Decision = Literal["keep", "back", "open"]
type AnswersVerdict = Literal["pass", "changed", "wrong", "unknown", ""]


@dataclass(frozen=True, kw_only=True)
class TrialVerdict:
    """`decision` is "open" where neither can be told with certainty."""

    decision: Decision
    says: Sentence
    change: SpeedChange | None = None


def judge_trial(
    before: Sequence[MeasuredPoint],
    after: Sequence[MeasuredPoint],
    *,
    answers: AnswersVerdict,
    most_loss: float,
) -> TrialVerdict:
    """`most_loss`: the share of its speed that may be lost. Tainted points count for nothing.

    Wrong answers go back whatever the speed is. A loss above the limit goes back where the whole
    difference is real; what lies certainly above the limit's other side, or cannot be told from no
    difference, is kept. Else it is open: the interval holds both.
    """
    change = compare_speed(*(_keep_clean(each) for each in (before, after)))
    if answers == "wrong":
        return TrialVerdict(decision="back", says=say("benchmarks.trial-wrong"), change=change)
    if change is None:
        return TrialVerdict(decision="open", says=say("benchmarks.trial-unmeasured"))
    found, params = change.difference, {"change": change.words, "limit": f"{100 * most_loss:.0f} %"}
    if found.is_real and found.change <= -most_loss and _is_certain(found):
        says = say("benchmarks.trial-slower", **params)
        return TrialVerdict(decision="back", says=says, change=change)
    if found.low < -most_loss and not change.is_faster:
        says = say("benchmarks.trial-unsure", limit=params["limit"])
        return TrialVerdict(decision="open", says=says, change=change)
    if answers == "changed":
        says = say("benchmarks.trial-changed", change=change.words)
        return TrialVerdict(decision="open", says=says, change=change)
    code = "benchmarks.trial-kept" if answers == "pass" else "benchmarks.trial-kept-unchecked"
    says = say(code, change=change.words)
    return TrialVerdict(decision="keep", says=says, change=change)


def _is_certain(found: FigureDifference) -> bool:
    """Whether it is a loss with 99 %, so that of a hundred equal builds at most one is accused.

    The upper end of about the 99 % interval: with six to ten degrees of freedom Student’s t is half
    as much again for it as for 95 %.
    """
    return found.high + (found.high - found.change) / 2 < 0


def pool_rounds(
    first: Sequence[MeasuredPoint], second: Sequence[MeasuredPoint]
) -> list[MeasuredPoint]:
    """Points that were measured twice, with the rounds of both; of one that is not clean only the other's."""
    found: dict[tuple[str, int, int, int], MeasuredPoint] = {}
    for point in (*_keep_clean(first), *_keep_clean(second)):
        known = found.get(point.key)
        rounds = (*known.rounds, *point.rounds) if known else point.rounds
        found[point.key] = replace(point, rounds=rounds)
    return list(found.values())


def _keep_clean(points: Sequence[MeasuredPoint]) -> list[MeasuredPoint]:
    return [point for point in points if not point.taints]
