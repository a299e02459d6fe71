"""Notices for the dashboard, the most urgent first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from servers.judge.messages import Sentence, say

GIB = 2**30

# A GB10 with less than this left is about to swap, and then to hang.
LOW_UNIFIED = 6 * GIB
# Below this the kernel's OOM killer is near on any machine.
LOW_MACHINE = 2 * GIB

# The kind of alert that tells of a rule of the hardware's health; of the others it is "hardware".
KIND_OF_RULE = {"thermal": "thermal", "disk": "disk"}
NO_GPU = "No GPU is seen"  # a box's own problem
# What a rule tells better than a box's own problem does.
SAME_AS = {"driver": NO_GPU, "collector": NO_GPU}

# Verdicts that a person can do something about.
_MEMORY = {
    "leaked": "alerts.notice-leaked",
    "residual": "alerts.notice-residual",
    "reclaimable": "alerts.notice-reclaimable",
}


@dataclass(frozen=True, kw_only=True)
class Notice:
    level: Literal["failed", "attention"]
    about: Literal["server", "box"]
    slug: str  # of the server or box
    what: str  # what happened
    fix: str = ""  # what to do next
    since: datetime | None = None
    occurrence: str = ""  # what tells this time from the next; "" where only an alert does
    # Of the alert that tells the same; "" where none ever does.
    kind: str = ""
    subject: str = ""
    alert: int | None = None  # its key, where there is one
    code: str = ""  # of the message, with what it was filled in with
    params: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def mark(self) -> str:
        """Its name for good: the same again has another one, where that can be told."""
        about = self.occurrence or f"{self.kind}-{self.subject or self.what}"
        return f"{self.about}-{self.slug}-{about}"[:300]


@dataclass(frozen=True, kw_only=True)
class AttentionAlert:
    """An open alert."""

    pk: int
    box: str
    server: str  # "" where it is about the box, or the server is gone
    kind: str
    subject: str
    severity: str
    title: str
    fix: str
    is_known: bool  # somebody has acknowledged it
    raised_at: datetime


@dataclass(frozen=True, kw_only=True)
class BoxState:
    """What is known of a box now. `sample` is None when the collector has been silent."""

    slug: str
    is_silent: bool
    was_seen: bool
    problems: tuple[tuple[str, str], ...]  # what, fix
    sample: Mapping[str, Any] | None
    strays: int = 0  # containers of ours that work although no run holds them


# What alerts may tell of a server that pages see by themselves.
_OF_SERVERS = ("failed", "died", "unhealthy")


def with_alerts(notices: Iterable[Notice], alerts: Iterable[AttentionAlert]) -> list[Notice]:
    """Both, each thing once; without what somebody has acknowledged."""
    left = list(alerts)
    found = []
    for notice in notices:
        same = [each for each in left if _is_same(notice, each)]
        left = [each for each in left if each not in same]
        if not same:
            found.append(notice)
        elif not all(each.is_known for each in same):
            found.append(replace(notice, alert=same[0].pk, since=same[0].raised_at))
    return found + [_of_alert(each) for each in left if not each.is_known]


# An alert is raised when its case has lasted; the notice stood there before.
_EARLIER = timedelta(minutes=15)


def drop_dismissed(notices: Iterable[Notice], dismissed: Mapping[str, datetime]) -> list[Notice]:
    """Without those that a person has dismissed, unless they have come anew. `dismissed` is by mark."""
    return [each for each in notices if not _is_dismissed(each, dismissed.get(each.mark))]


def _is_dismissed(notice: Notice, at: datetime | None) -> bool:
    if at is None:
        return False
    return bool(notice.occurrence) or notice.since is None or notice.since < at + _EARLIER


def _is_same(notice: Notice, alert: AttentionAlert) -> bool:
    if notice.about == "server":
        return alert.server == notice.slug and alert.kind in _OF_SERVERS
    if not notice.kind or alert.box != notice.slug or alert.kind != notice.kind:
        return False
    # A load that takes the box's last memory is the same little memory.
    return alert.subject == notice.subject or notice.kind == "floor"


def _of_alert(alert: AttentionAlert) -> Notice:
    what = alert.title
    for before in (f"{alert.server} on {alert.box} ", f"{alert.box}: ", f"{alert.box} "):
        what = what.removeprefix(before)
    return Notice(
        level="failed" if alert.severity == "critical" else "attention",
        about="server" if alert.server else "box",
        slug=alert.server or alert.box,
        what=what.replace(f" on {alert.box} ", " ", 1),
        fix=alert.fix,
        kind=alert.kind,
        subject=alert.subject,
        alert=alert.pk,
        since=alert.raised_at,
        occurrence=f"alert-{alert.pk}",
    )


def of_boxes(boxes: Iterable[BoxState]) -> list[Notice]:
    """Notices on boxes. A silent box gets one only: the rest of what is known of it is old."""
    found: list[Notice] = []
    for box in boxes:
        if box.is_silent:
            found.append(_silence(box))
            continue
        told = {SAME_AS.get(each["rule"]) for each in _findings(box)}
        found += [
            _build_notice(box, what, fix, of=("box", what[:200]))
            for what, fix in box.problems
            if what not in told
        ]
        found += _strays(box)
        if box.sample is not None:
            found += _low_memory(box, box.sample)
            found += _hardware(box, box.sample)
            found += _memory(box, box.sample)
    return found


def _silence(box: BoxState) -> Notice:
    if box.was_seen:
        return _notify(box, say("alerts.notice-silent"), level="failed", of=("silent", "box"))
    return _notify(box, say("alerts.notice-never-seen"))


def _low_memory(box: BoxState, sample: Mapping[str, Any]) -> list[Notice]:
    available = sample.get("meminfo", {}).get("MemAvailable")
    unified = any(card.get("kind") == "unified" for card in sample.get("gpus") or [])
    if available is None or available >= (LOW_UNIFIED if unified else LOW_MACHINE):
        return []
    code = "alerts.notice-little-memory"
    if unified:
        code = "alerts.notice-little-shared-memory"
    return [_notify(box, say(code, size=available), level="failed", of=("floor", "box"))]


def _strays(box: BoxState) -> list[Notice]:
    if not box.strays:
        return []
    if box.strays == 1:
        return [_notify(box, say("alerts.notice-stray"))]
    return [_notify(box, say("alerts.notice-strays", count=box.strays))]


def of_finding(finding: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and subject of the alert that tells of it."""
    subject = f"{finding['rule']}:{finding['subject']}"[:200]
    return KIND_OF_RULE.get(finding["rule"], "hardware"), subject


def _findings(box: BoxState) -> Sequence[Mapping[str, Any]]:
    return (box.sample or {}).get("findings") or ()


def _hardware(box: BoxState, sample: Mapping[str, Any]) -> list[Notice]:
    if "findings" in sample:
        return [
            _build_notice(
                box,
                each["title"],
                f"{each['because']} {each['advice']}",
                level="failed" if each["severity"] == "critical" else "attention",
                of=of_finding(each),
            )
            for each in _findings(box)
            if each["severity"] != "info"
        ]
    return [
        _notify(
            box,
            say("alerts.notice-gpu-fault", gpu=card["index"], fault=card["fault"]),
            level="failed",
        )
        for card in sample.get("gpus") or []
        if card.get("fault")
    ]


def _memory(box: BoxState, sample: Mapping[str, Any]) -> list[Notice]:
    indices = {card.get("uuid"): card["index"] for card in sample.get("gpus") or []}
    return [
        _notify(
            box,
            say(
                _MEMORY[each["verdict"]],
                gpu=indices[each["gpu"]],
                fix=f"{each['reason']} {each['advice']}".strip(),
            ),
            level="failed" if each["verdict"] == "leaked" else "attention",
            of=(each["verdict"], each["gpu"]),
        )
        for each in sample.get("verdicts") or []
        if each["verdict"] in _MEMORY and each["gpu"] in indices
    ]


def _notify(
    box: BoxState,
    said: Sentence,
    *,
    level: Literal["failed", "attention"] = "attention",
    of: tuple[str, str] = ("", ""),
) -> Notice:
    found = _build_notice(box, said.text, said.advice, level=level, of=of)
    return replace(found, code=said.code, params=said.params)


def _build_notice(
    box: BoxState,
    what: str,
    fix: str,
    *,
    level: Literal["failed", "attention"] = "attention",
    of: tuple[str, str] = ("", ""),
) -> Notice:
    kind, subject = of
    return Notice(
        level=level, about="box", slug=box.slug, what=what, fix=fix, kind=kind, subject=subject
    )
