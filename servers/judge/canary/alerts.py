"""The alert of a canary: a server that answers wrongly, or otherwise than before."""

from collections.abc import Sequence

from servers.judge.alerts.case import AlertCase
from servers.judge.canary.changes import MeasuredChange
from servers.judge.canary.rules import CanaryRule
from servers.judge.canary.verdicts import ItemVerdict
from servers.judge.messages import say

# Of the speed at its last good canary: from there on it is no slower than it was.
AS_FAST = 0.8
_TOLD = 2  # items, and rules


def judge_answers(
    *,
    server: str,
    box: str,
    run: int,
    verdicts: Sequence[ItemVerdict],
    changes: Sequence[MeasuredChange] | None,
    rules: Sequence[CanaryRule],
    rates: tuple[float | None, float | None],
    ended: float,
) -> AlertCase | None:
    """None where nothing is wrong or changed. `changes` None: there was nothing to compare with.

    `rates`: tokens a second before and now. `ended`: unix seconds.
    """
    wrong = [each for each in verdicts if each.verdict == "wrong"]
    failing = wrong or [each for each in verdicts if each.verdict == "changed"]
    if not failing:
        return None
    before, now = rates
    is_fast = before is not None and now is not None and now >= AS_FAST * before
    how = "canary.answers-fast-but-wrong" if is_fast else "canary.answers-wrong"
    said = say(
        how if wrong else "canary.answers-changed",
        run=f"{server} on {box}",
        what=_describe(failing),
        advice=" ".join([*_describe_changes(changes), *_advise(rules)]),
    )
    return AlertCase.from_sentence(said, kind="answers", subject=server, run=run, began=ended)


def _describe(failing: Sequence[ItemVerdict]) -> str:
    told = [f"{each.title}: {each.text}" for each in failing[:_TOLD]]
    more = len(failing) - len(told)
    return " ".join([*told, *([f"And {more} more."] if more else [])])


def _describe_changes(changes: Sequence[MeasuredChange] | None) -> list[str]:
    if changes is None:
        return []
    if not changes:
        return [say("canary.since-nothing").text]
    return [say("canary.since", changes=", ".join(map(str, changes))).text]


def _advise(rules: Sequence[CanaryRule]) -> list[str]:
    told = [f"{rule.says} {rule.advice}" for rule in rules[:_TOLD]]
    return told or [say("canary.see-page").text]
