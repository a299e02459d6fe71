"""The box on which a start that may go anywhere begins: by memory fit, then by who waits there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from servers.judge.messages import say
from servers.judge.weights.fit.result import BETTER, Verdict

# "now": it would begin at once. "later": once its GPUs are free.
type When = Literal["now", "later", "never"]
_NAMED = 3  # boxes that one sentence explains


@dataclass(frozen=True, kw_only=True)
class BoxCandidate:
    """`why_not`: what speaks against it, to go on after the box's name; "" where nothing does."""

    box: str
    when: When
    why_not: str = ""
    fits: Verdict = "unknown"
    spare: int = 0  # bytes that would stay free on each of its GPUs
    waiting: int = 0  # starts in its queue
    has_model: bool = True


@dataclass(frozen=True, kw_only=True)
class BoxChoice:
    chosen: BoxCandidate | None
    says: str


def choose_box(candidates: Sequence[BoxCandidate]) -> BoxChoice:
    """The best that fits now, else the one with the shortest queue; ties by name."""
    possible = [each for each in candidates if each.when != "never"]
    if not possible:
        others = _explain(candidates)
        return BoxChoice(chosen=None, says=say("runs.fits-nowhere", others=others).text)
    best = min(possible, key=_order)
    code = "runs.placed-now" if best.when == "now" else "runs.placed-later"
    says = say(code, box=best.box).text
    rest = [each for each in candidates if each is not best and each.why_not]
    return BoxChoice(chosen=best, says=" ".join(filter(None, (says, _explain(rest)))))


def _order(each: BoxCandidate) -> tuple[bool, int, int, bool, int, str]:
    return (
        each.when != "now",
        each.waiting,
        -BETTER[each.fits],
        not each.has_model,
        -each.spare,
        each.box,
    )


def _explain(candidates: Sequence[BoxCandidate]) -> str:
    """ "rtx8 is away; spark-1 is used by glm-5."; "" for none."""
    told = [f"{each.box} {each.why_not}" for each in candidates[:_NAMED]]
    more = len(candidates) - len(told)
    told += [f"and {more} more"] if more > 0 else []
    return f"{'; '.join(told)}." if told else ""
