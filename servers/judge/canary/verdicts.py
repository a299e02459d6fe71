"""The verdict of a canary: item by item, against the last good one of the same model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, Literal

from servers.host.canary.replies import CanaryReply
from servers.judge.canary.fingerprints import FingerprintDifference, compare_fingerprints
from servers.judge.canary.items import CanaryItem, ItemKind
from servers.judge.canary.scores import ItemScore, quote
from servers.judge.messages import Sentence, say

type CanaryVerdict = Literal["pass", "changed", "wrong", "unknown"]

_TRIES = 3  # of an item that was not right
# How likely chance alone may make so many answers worse, and not better.
SURE, LIKELY = 0.01, 0.1
_GROUPS: Mapping[ItemKind, str] = {"arithmetic": "Arithmetic", "fingerprint": "First 64 tokens"}
# What no working model gives, whatever it could do before.
_NOISE = frozenset(
    f"canary.{each}"
    for each in (
        *("failed", "repeats", "stuck", "not-decoded", "no-letters", "many-alphabets", "loops"),
        "empty",
    )
)
_ORDER: Sequence[CanaryVerdict] = ("wrong", "changed", "pass", "unknown")


@dataclass(frozen=True, kw_only=True)
class AnsweredItem:
    """What came of an item. `rights` has whether each try was right, None where that cannot be told;
    `why` is the code of what is wrong with the last try that was not, "" otherwise."""

    key: str
    kind: ItemKind
    title: str
    rights: tuple[bool | None, ...]
    answer: str
    why: str = ""
    why_params: Mapping[str, Any]
    replies: tuple[CanaryReply, ...] = ()  # of a fingerprint: one a repeat

    @property
    def is_right(self) -> bool | None:
        """By most of its tries."""
        known = [each for each in self.rights if each is not None]
        return sum(known) * 2 > len(known) if known else None

    @property
    def is_steady(self) -> bool:
        return len(set(self.rights)) == 1

    @property
    def reason(self) -> Sentence | None:
        return say(self.why, **self.why_params) if self.why else None


@dataclass(frozen=True, kw_only=True)
class ItemVerdict:
    """Of an item, or of several that are judged as one. `before` and `after` show the first place
    that differs, "" where none is shown."""

    key: str
    kind: ItemKind
    title: str
    verdict: CanaryVerdict
    text: str
    before: str = ""
    after: str = ""


type Try = tuple[ItemScore, CanaryReply]  # with the reply to its last turn


def needs_try(item: CanaryItem, tries: Sequence[Try]) -> bool:
    """Whether it is to be asked once more. Noise and damage are told apart by the repeats."""
    # Of many problems alike, some flip by noise: they are judged together.
    most = item.repeats if item.kind == "arithmetic" else max(_TRIES, item.repeats)
    has_failed = any(score.is_right is False for score, _reply in tries)
    return len(tries) < item.repeats or (has_failed and len(tries) < most)


def build_answer(item: CanaryItem, tries: Sequence[Try]) -> AnsweredItem:
    wrong = next((each for each in reversed(tries) if each[0].why is not None), None)
    why = wrong[0].why if wrong else None
    return AnsweredItem(
        key=item.key,
        kind=item.kind,
        title=item.title,
        rights=tuple(score.is_right for score, _reply in tries),
        answer=_show((wrong or tries[0])[1]),
        why=why.code if why else "",
        why_params=why.params if why else {},
        replies=tuple(reply for _score, reply in tries) if item.kind == "fingerprint" else (),
    )


def _show(reply: CanaryReply) -> str:
    if reply.tool_calls:
        name, arguments = reply.tool_calls[0]
        return quote(f"{name}({arguments})")
    return quote(reply.text or reply.reasoning)


def judge_items(
    after: Sequence[AnsweredItem], before: Sequence[AnsweredItem] | None
) -> list[ItemVerdict]:
    """`before`: of the last good run of the same model; None: there is none."""
    known = {each.key: each for each in before or ()}
    found, seen = [], set()
    for item in after:
        if item.kind not in _GROUPS:
            found.append(_judge_one(item, known.get(item.key)))
        elif item.kind not in seen:
            seen.add(item.kind)
            group = [each for each in after if each.kind == item.kind]
            judge = _judge_arithmetic if item.kind == "arithmetic" else _judge_fingerprint
            found.append(judge(group, known))
    return found


def sum_up(verdicts: Sequence[ItemVerdict]) -> CanaryVerdict:
    """The worst of them. An item that cannot be told makes nothing worse."""
    return min((each.verdict for each in verdicts), key=_ORDER.index, default="unknown")


def _judge_one(item: AnsweredItem, before: AnsweredItem | None) -> ItemVerdict:
    def conclude(verdict: CanaryVerdict, code: str = "", **params: Any) -> ItemVerdict:
        parts = [item.reason.text if item.reason else "", say(code, **params).text if code else ""]
        was = before.answer if before and verdict in ("wrong", "changed") else ""
        return ItemVerdict(
            key=item.key, kind=item.kind, title=item.title, verdict=verdict,
            text=" ".join(filter(None, parts)), before=was, after=item.answer,
        )  # fmt: skip

    if item.is_right is None:
        return conclude("unknown")
    if item.is_right and item.is_steady:
        return conclude("pass")
    if before is not None and before.is_right and not item.is_right:
        return conclude("wrong", "canary.was-right")
    if item.why in _NOISE and not item.is_right:
        return conclude("wrong")
    if item.is_right:
        return conclude("changed", "canary.unsteady", tries=len(item.rights))
    if before is None:
        return conclude("unknown", "canary.nothing-to-compare")
    return conclude("unknown", "canary.as-before")


def _judge_arithmetic(
    group: Sequence[AnsweredItem], known: Mapping[str, AnsweredItem]
) -> ItemVerdict:
    """A sign test on the problems that came out otherwise: some flip by numerical noise alone."""
    told = [each for each in group if each.is_right is not None]
    pairs = [(known[each.key], each) for each in told if each.key in known]
    worse = [now for was, now in pairs if was.is_right and not now.is_right]
    better = sum(not was.is_right and bool(now.is_right) for was, now in pairs)
    right = sum(bool(each.is_right) for each in told)
    chance = find_chance(len(worse), better)
    verdict: CanaryVerdict = "wrong" if chance < SURE else "changed" if chance < LIKELY else "pass"
    params: dict[str, Any] = {"right": right, "count": len(told)}
    noisy = [each for each in told if each.why in _NOISE]
    if not told:
        verdict, text = "unknown", (group[0].reason or say("canary.not-told")).text
    elif len(noisy) * 2 > len(told):
        verdict, text = "wrong", say("canary.arithmetic-noise", **params).text
    elif not pairs:
        verdict, text = "pass", say("canary.arithmetic", **params).text
    else:
        was = sum(bool(each.is_right) for each, _now in pairs)
        text = say("canary.arithmetic-compared", **params, was=was).text
    shown = worse[0] if worse and verdict != "pass" else None
    return ItemVerdict(
        key="arithmetic", kind="arithmetic", title=_GROUPS["arithmetic"], verdict=verdict, text=text,
        before=quote(f"{shown.title} {known[shown.key].answer}") if shown else "",
        after=quote(shown.answer) if shown else "",
    )  # fmt: skip


def find_chance(worse: int, better: int) -> float:
    """How likely it is that, of so many that changed, at least `worse` get worse by chance alone."""
    count = worse + better
    return sum(comb(count, each) for each in range(worse, count + 1)) / float(2**count)


def _judge_fingerprint(
    group: Sequence[AnsweredItem], known: Mapping[str, AnsweredItem]
) -> ItemVerdict:
    after = {each.key: each.replies for each in group}
    title = _GROUPS["fingerprint"]
    if noisy := [each for each in group if each.why in _NOISE]:
        reason = noisy[0].reason
        text = f"{noisy[0].title}: {reason.text if reason else ''}"
        return ItemVerdict(
            key="fingerprint", kind="fingerprint", title=title, text=text,
            verdict="wrong" if len(noisy) * 2 > len(group) else "changed", after=noisy[0].answer,
        )  # fmt: skip
    before = {key: each.replies for key, each in known.items() if each.kind == "fingerprint"}
    found = compare_fingerprints(before, after)
    verdict: CanaryVerdict = "unknown"
    if found.finding in ("same", "noise"):
        verdict = "pass"
    elif found.finding in ("changed", "foreign"):
        verdict = "changed"
    branch = found.first
    return ItemVerdict(
        key="fingerprint", kind="fingerprint", title=title, verdict=verdict,
        text=_describe_fingerprint(found, group), before=branch.before if branch else "",
        after=branch.after if branch else "",
    )  # fmt: skip


_FINGERPRINTS = {
    "same": "canary.fingerprint-same",
    "noise": "canary.fingerprint-noise",
    "changed": "canary.fingerprint-changed",
    "moved": "canary.fingerprint-moved",
    "foreign": "canary.fingerprint-foreign",
    "unknown": "canary.fingerprint-unknown",
}


def _describe_fingerprint(found: FingerprintDifference, group: Sequence[AnsweredItem]) -> str:
    if not found.prompts:
        return say("canary.fingerprint-kept").text
    branched, first = len(found.branches), found.first
    params: dict[str, Any] = {"count": found.prompts}
    code = "moved" if found.finding == "changed" and not branched else found.finding
    if code not in ("same", "moved"):
        params["branched"] = branched
    parts = [say(_FINGERPRINTS[code], **params).text]
    if found.shift is not None and found.finding in ("changed", "foreign"):
        parts.append(say("canary.fingerprint-shift", shift=f"{found.shift:.2f}").text)
    if first is not None:
        titles = {each.key: each.title for each in group}
        unit = "token" if first.in_tokens else "character"
        place = {"question": titles[first.key], "unit": unit, "place": first.place + 1}
        parts.append(say("canary.fingerprint-place", **place).text)
    return " ".join(parts)
