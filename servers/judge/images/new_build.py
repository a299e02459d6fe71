"""The effect of a newer build on a profile that starts from it. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from servers.judge.profiles.subject import LintFinding
from servers.launch.engines.change import LaunchChange

type Kind = Literal["same", "renamed", "changed", "cannot", "unknown"]

# In the order in which a sentence tells them: for one, and for more.
_WORDS: dict[Kind, tuple[str, str]] = {
    "same": ("starts as it is", "start as they are"),
    "renamed": ("needs a flag renamed", "need a flag renamed"),
    "changed": ("needs a change", "need a change"),
    "cannot": ("cannot", "cannot"),
    "unknown": ("cannot be told", "cannot be told"),
}


@dataclass(frozen=True, kw_only=True)
class BuildVerdict:
    """`fresh` are errors that the image of today does not have, the worst first."""

    kind: Kind
    fresh: tuple[LintFinding, ...] = ()
    stale: int = 0  # errors that it has today, too
    why: str = ""  # of "unknown"


def verdict(now: Iterable[LintFinding], then: Iterable[LintFinding]) -> BuildVerdict:
    """Of the findings with the image of today and with the newer one.

    An error with both is nothing that the newer build would change. A flag that is gone without
    another in its place cannot be put right by leaving it out: it was there for a reason.
    """
    known = {(each.rule, each.about) for each in now if each.severity == "error"}
    errors = [each for each in then if each.severity == "error"]
    fresh = tuple(each for each in errors if (each.rule, each.about) not in known)
    stale = len(errors) - len(fresh)
    if not fresh:
        return BuildVerdict(kind="same", stale=stale)
    if any(each.fix is None or _only_drops(each.fix) for each in fresh):
        return BuildVerdict(kind="cannot", fresh=fresh, stale=stale)
    is_renamed = all(each.fix is not None and _renames(each.fix) for each in fresh)
    return BuildVerdict(kind="renamed" if is_renamed else "changed", fresh=fresh, stale=stale)


def unknown(why: str) -> BuildVerdict:
    return BuildVerdict(kind="unknown", why=why)


def sentence(verdicts: Sequence[BuildVerdict]) -> str:
    """ "4 start as they are, 1 needs a flag renamed, 1 cannot"; "" without any."""
    counted = Counter(each.kind for each in verdicts)
    parts = [
        f"{counted[kind]} {one if counted[kind] == 1 else several}"
        for kind, (one, several) in _WORDS.items()
        if counted[kind]
    ]
    return ", ".join(parts)


def word(kind: Kind) -> str:
    return _WORDS[kind][0]


def _only_drops(fix: LaunchChange) -> bool:
    return bool(fix.drop_flags) and not (fix.set_flags or fix.set_env or fix.fields)


def _renames(fix: LaunchChange) -> bool:
    return bool(fix.drop_flags and fix.set_flags) and not (fix.set_env or fix.fields)
