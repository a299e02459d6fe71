"""Alert cases of a box: memory, hardware, missing resources, silence, downloads."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from servers.judge.alerts.attention import (
    GIB,
    LOW_MACHINE,
    LOW_UNIFIED,
    NO_GPU,
    SAME_AS,
    of_finding,
)
from servers.judge.alerts.case import AlertCase, Key
from servers.judge.alerts.runs import span
from servers.judge.memory.hardware.finding import BOX
from servers.judge.memory.hardware.machine import DATA_DISK, is_data_disk_full, is_data_disk_low
from servers.judge.messages import say

# Seconds without a sign of life, of which there is one every ten: an update takes less.
SILENT_AFTER = 120.0
FLOOR: Key = ("floor", "box")
DATA_FOLDER: Key = ("disk", DATA_DISK)
# What cards that answer are the opposite of.
NO_DRIVER: frozenset[Key] = frozenset(
    {("box", NO_GPU), *(("hardware", f"{rule}:{BOX}") for rule in SAME_AS)}
)
# What little memory has to rise to before it is enough again.
ENOUGH = 1.2
_FROM_FINDINGS = frozenset({"thermal", "disk", "hardware"})
_FROM_VERDICTS = frozenset({"leaked", "residual"})
# Verdicts under which nobody can say that memory is well again.
_UNSURE = ("unknown", "settling")


@dataclass(frozen=True, kw_only=True)
class BoxCases:
    """What a sample tells, and what it does not."""

    cases: tuple[AlertCase, ...] = ()
    unknown_kinds: frozenset[str] = frozenset()
    unsure: frozenset[Key] = field(default=frozenset())
    refuted: frozenset[Key] = field(default=frozenset())  # seen to be over, not only not seen


NOTHING = BoxCases(unknown_kinds=_FROM_FINDINGS | _FROM_VERDICTS | {"floor"})


def of_sample(box: str, sample: Mapping[str, Any] | None, *, is_low: bool = False) -> BoxCases:
    """`is_low`: little memory is told already, so that it takes more to be enough."""
    if sample is None:
        return NOTHING
    unknown: set[str] = set()
    cases = list(_low(box, sample, is_low))
    if "findings" not in sample:
        unknown |= _FROM_FINDINGS
    if "verdicts" not in sample:
        unknown |= _FROM_VERDICTS
    if (sample.get("meminfo") or {}).get("MemAvailable") is None:
        unknown.add("floor")
    cases += _findings(box, sample.get("findings") or ())
    cases += _verdicts(box, sample)
    unsure = {
        (kind, str(each["gpu"]))
        for each in sample.get("verdicts") or ()
        if each["verdict"] in _UNSURE
        for kind in _FROM_VERDICTS
    }
    return BoxCases(
        cases=tuple(cases),
        unknown_kinds=frozenset(unknown),
        unsure=frozenset(unsure),
        refuted=NO_DRIVER if _shows_gpus(sample) else frozenset(),
    )


def _shows_gpus(sample: Mapping[str, Any]) -> bool:
    answers = not sample.get("error") and sample.get("stale_s") is None
    return answers and bool(sample.get("gpus"))


def _verdicts(box: str, sample: Mapping[str, Any]) -> Iterator[AlertCase]:
    indices = {card.get("uuid"): card.get("index") for card in sample.get("gpus") or ()}
    codes = {"leaked": "alerts.memory-leaked", "residual": "alerts.memory-residual"}
    for each in sample.get("verdicts") or ():
        if each.get("alarm") and each["verdict"] in codes:
            index = indices.get(each["gpu"])
            card = "A GPU" if index is None else f"GPU {index}"
            size = each.get("unattributed") or 0
            known = {"card": card, "box": box, "why": each["reason"], "fix": each["advice"]}
            yield AlertCase.from_sentence(
                say(codes[each["verdict"]], **known),
                kind=each["verdict"],
                subject=str(each["gpu"]),
                memory=say("alerts.not-released", size=size).text if size else "",
            )


def _findings(box: str, findings: Any) -> Iterator[AlertCase]:
    for each in findings:
        if each["severity"] in ("warning", "critical"):
            kind, subject = of_finding(each)
            yield AlertCase(
                kind=kind,
                subject=subject,
                severity=each["severity"],
                title=f"{box}: {each['title']}",
                detail=each["because"],
                advice=each["advice"],
                began=each.get("since"),
            )


def _low(box: str, sample: Mapping[str, Any], is_low: bool) -> Iterator[AlertCase]:
    left = (sample.get("meminfo") or {}).get("MemAvailable")
    is_unified = any(card.get("kind") == "unified" for card in sample.get("gpus") or ())
    floor = LOW_UNIFIED if is_unified else LOW_MACHINE
    if left is None or left >= floor * (ENOUGH if is_low else 1):
        return
    code = "alerts.little-shared-memory" if is_unified else "alerts.little-memory"
    yield AlertCase.from_sentence(
        say(code, box=box, floor=f"{floor / GIB:.0f}"),
        kind="floor",
        subject="box",
        memory=say("alerts.memory-left", size=left).text,
    )


def without_floor_twice(cases: list[AlertCase], told: Collection[Key]) -> list[AlertCase]:
    """A load that takes a box's last memory tells of it by itself, if nothing did before."""
    by_load = any(each.kind == "floor" and each.key != FLOOR for each in cases)
    if not by_load or FLOOR in told:
        return cases
    return [each for each in cases if each.key != FLOOR]


def lacks(
    box: str, problems: list[dict[str, str]], sample: Mapping[str, Any] | None
) -> Iterator[AlertCase]:
    """What the watcher says is missing on its box, but for what a finding of the sample tells."""
    told = {SAME_AS.get(each["rule"]) for each in (sample or {}).get("findings") or ()}
    for each in problems:
        if each["what"] not in told:
            yield AlertCase(
                kind="box",
                subject=each["what"][:200],
                severity="warning",
                title=f"{box}: {each['what']}",
                detail=each["fix"],
            )


def data_folder(box: str, free: int, total: int, *, is_told: bool = False) -> AlertCase | None:
    """Bytes of the disk that inferdash's data folder lies on; `is_told`: it is told already, so that
    it takes more to be enough."""
    if not is_data_disk_low(free / (ENOUGH if is_told else 1), total):
        return None
    is_full = is_data_disk_full(free, total)
    code = "alerts.data-folder-full" if is_full else "alerts.data-folder-nearly-full"
    return AlertCase.from_sentence(
        say(code, box=box, free=free, total=total), kind="disk", subject=DATA_FOLDER[1]
    )


def silence(box: str, *, seen_at: float, now: float, servers: int = 0) -> AlertCase | None:
    """`servers`: how many were running there when it was last heard of."""
    if now - seen_at < SILENT_AFTER:
        return None
    were = "1 server was" if servers == 1 else f"{servers} servers were"
    running = f" {were} running there." if servers else ""
    return AlertCase.from_sentence(
        say("alerts.box-silent", box=box, silent=span(SILENT_AFTER), servers=running),
        kind="silent",
        subject="box",
        memory=say("alerts.memory-unknown").text,
        began=seen_at,
    )


# Seconds after the click within which its person is still there, and reads what went wrong.
STILL_THERE = 60.0
# Seconds after which the page tells no more of it, and nobody waits for it.
NEWS = 86400.0


@dataclass(frozen=True, kw_only=True)
class Fetch:
    """The newest try of one thing; times are unix seconds."""

    kind: str  # download, pull
    subject: str  # the same for each try
    name: str
    box: str
    is_failed: bool
    asked_at: float
    ended_at: float | None
    said: str  # why it failed
    advice: str = ""


def find_download_cases(fetches: Iterable[Fetch], *, now: float) -> Iterator[AlertCase]:
    """A try that ended at once is told on its page alone, to who has just pressed the button."""
    for each in fetches:
        if not each.is_failed or each.ended_at is None or now - each.ended_at > NEWS:
            continue
        if each.ended_at - each.asked_at < STILL_THERE:
            continue
        code = "alerts.pull-failed" if each.kind == "pull" else "alerts.download-failed"
        fix = f"{each.advice} " if each.advice else ""
        yield AlertCase.from_sentence(
            say(code, box=each.box, name=each.name, why=each.said, fix=fix),
            kind=each.kind,
            subject=each.subject[:200],
            began=each.ended_at,
        )
