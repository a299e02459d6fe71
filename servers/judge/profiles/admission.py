"""The engines' own conditions for a start, with the numbers that they would find now.

Where one of them is not met the engine ends at once, or after minutes of loading, so these are
errors. What the estimate of `judge.weights.fit` says is none.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date

from servers.judge.memory.pools import GpuRoom
from servers.judge.messages import Sentence, say
from servers.judge.profiles.conditions import OFF
from servers.judge.profiles.facts import SEVERITIES, LaunchFacts, LintFinding
from servers.judge.profiles.lint_rules import CheckHit, Fix, adapt_fix, list_checks
from servers.judge.weights.fit.demand import SHARE_FLAG, read_demand
from servers.judge.weights.fit.result import find_used_rooms
from servers.launch.engines.change import Difference, LaunchChange, compare_launches
from servers.launch.engines.launch import SAYS_ONLY, Launch

GIB = 2**30
BALANCE = 0.9  # of one GPU's free memory must be free on every other
# The driver's own context on a GPU, which is there before the engine looks.
CONTEXT = int(0.5 * GIB)
LEAST_SHARE = 0.05


def _vllm_free_memory(facts: LaunchFacts) -> Iterator[CheckHit]:
    """vLLM 0.33, v1/worker/utils.py, request_memory: free ≥ total × utilization, on each GPU.

    On GPUs that share the machine's memory it counts what is available there.
    """
    rooms = [room for room in find_used_rooms(facts) if room.free is not None]
    if facts.engine != "vllm" or not rooms:
        return
    share = read_demand(facts, memory=rooms[0].total).share
    if share is None:
        return
    short = [room for room in rooms if (room.free or 0) < math.ceil(room.total * share)]
    if not short:
        return
    least = min(short, key=lambda room: (room.free or 0) / room.total)
    typed = facts.flag(SHARE_FLAG["vllm"])
    yield CheckHit(
        says=say(
            "profiles.vllm-free-memory",
            where=least.named,
            free=_gib(least.free),
            total=_gib(least.total),
            share=share,
            wanted=_gib(least.total * share),
        ),
        about=typed.word if typed else "flags",
        fix=_share(facts, rooms),
    )


def compute_shortfall(facts: LaunchFacts) -> int:
    """Bytes that vLLM would miss on the GPU with the least before it loads anything; else 0."""
    rooms = [room for room in find_used_rooms(facts) if room.free is not None]
    if facts.engine != "vllm" or not rooms:
        return 0
    share = read_demand(facts, memory=rooms[0].total).share or 0.0
    return max(0, *(math.ceil(room.total * share) - (room.free or 0) for room in rooms))


def _share(facts: LaunchFacts, rooms: list[GpuRoom]) -> LaunchChange | None:
    """The utilization that every GPU has free, with room for the driver's own context."""
    part = min(((room.free or 0) - CONTEXT) / room.total for room in rooms)
    value = math.floor(part * 100) / 100
    if value < max(LEAST_SHARE, facts.weights_share or 0.0):
        return None
    change = LaunchChange(set_flags={SHARE_FLAG["vllm"]: f"{value:.2f}"})
    reason = "As much as is free beside what else holds the GPU's memory"
    return adapt_fix(Fix(change=change), facts, reason=reason)


def _sglang_balance(facts: LaunchFacts) -> Iterator[CheckHit]:
    """SGLang 0.5.23, model_executor/model_runner.py: the least free memory of all ranks against
    0.9 of each one's own, where tensor parallelism spans several GPUs.
    """
    rooms = [room for room in find_used_rooms(facts) if room.free is not None]
    if facts.engine != "sglang" or (facts.tp or 1) < 2 or len(rooms) < 2:
        return
    least = min(rooms, key=lambda room: room.free or 0)
    most = max(rooms, key=lambda room: room.free or 0)
    if (least.free or 0) >= BALANCE * (most.free or 0):
        return
    checked = facts.env.get("SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK", "1")
    is_off = checked is not None and checked.casefold() in OFF
    code = "profiles.sglang-memory-balance"
    said = say(
        "profiles.sglang-memory-balance-unchecked" if is_off else code,
        least=least.index,
        least_free=_gib(least.free),
        most=most.index,
        most_free=_gib(most.free),
        balance=BALANCE,
        wanted=_gib(BALANCE * (most.free or 0)),
    )
    yield CheckHit(
        says=said,
        about="gpus",
        fix=_alike(facts, len(rooms)),
        severity="warning" if is_off else None,
    )


def _alike(facts: LaunchFacts, count: int) -> LaunchChange | None:
    """Other GPUs of the box of the same kind that are as free as each other."""
    gpus = {gpu.index: gpu for gpu in facts.subject.gpus or ()}
    kinds = {gpus[room.index].name for room in find_used_rooms(facts) if room.index in gpus}
    rooms = [
        room
        for room in facts.subject.rooms or ()
        if room.free is not None and room.index in gpus and gpus[room.index].name in kinds
    ]
    rooms = sorted(rooms, key=lambda room: (-(room.free or 0), room.index))[:count]
    if len(rooms) < count or (rooms[-1].free or 0) < BALANCE * (rooms[0].free or 0):
        return None
    indices = ",".join(str(room.index) for room in sorted(rooms, key=lambda room: room.index))
    return adapt_fix(Fix(change=LaunchChange(fields={"gpus": indices})), facts, reason="")


def _gib(size: float | None) -> str:
    return f"{(size or 0) / GIB:.2f}"


CHECKS = list_checks(
    {
        "vllm-free-memory": _vllm_free_memory,
        "sglang-memory-balance": _sglang_balance,
    }
)
# What they say is of this moment: that the same launch worked yesterday says nothing of it.
NOW = tuple(check.id for check in CHECKS)


# What people write about a launch does not change what it does.
# What is missing, rather than something that stands there.
_MISSING = ("flags", "env")


@dataclass(frozen=True, kw_only=True)
class LastGoodRun:
    """The latest start of the same profile on the same box that became ready, and that was not seen
    to answer nonsense."""

    launch: Launch
    version: int
    day: date


def weigh(
    findings: Iterable[LintFinding], launch: Launch, worked: LastGoodRun | None
) -> list[LintFinding]:
    """The findings, the worst first, each with what the last good start says of it.

    `worked` is None when none became ready. A start that says exactly the same became ready,
    so nothing is an error then: a rule that was published elsewhere cannot know better. That
    it became ready does not say that it stayed up or answers well, so the findings remain.
    """
    if worked is None:
        return list(findings)
    differences = {
        each.name: each
        for each in compare_launches(worked.launch, launch)
        if each.name not in SAYS_ONLY and each.before != each.after
    }
    weighed = [_weigh(each, differences, worked) for each in findings]
    return sorted(weighed, key=lambda each: SEVERITIES.index(each.severity))


def _weigh(
    finding: LintFinding, differences: dict[str, Difference], worked: LastGoodRun
) -> LintFinding:
    if finding.severity == "info" or finding.rule in NOW:
        return finding
    start = {"version": worked.version, "day": f"{worked.day:%d %b %Y}"}
    if not differences:
        severity = "warning" if finding.severity == "error" else finding.severity
        yours = str(say("profiles.yours-same", **start))
        return replace(finding, severity=severity, yours=yours)
    if finding.about in _MISSING:
        return finding
    name = finding.about.replace("_", "-") if finding.about.startswith("--") else finding.about
    return replace(finding, yours=str(_yours(finding.about, differences.get(name), start)))


def _yours(about: str, difference: Difference | None, start: Mapping[str, object]) -> Sentence:
    # A field of Launch has another name on the page.
    is_field = about.islower() and not about.startswith("-")
    if difference is None:
        what = "setting" if is_field else about
        return say("profiles.yours-with-same", what=what, **start)
    what = "this setting" if is_field else about
    if difference.before is None:
        return say("profiles.yours-without", what=what, **start)
    had = f"{what} at {difference.before}" if is_field else f"{about} {difference.before}".rstrip()
    return say("profiles.yours-with", had=had, **start)
