"""The last good run of a launch, and how it adjusts the severity of findings."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from servers.judge.profiles import admission
from servers.judge.profiles.subject import SEVERITIES, LintFinding
from servers.launch.engines.diff import Difference, compare
from servers.launch.engines.launch import Launch

# What people write about a launch does not change what it does.
_SAID_ABOUT = ("reasons", "hardware", "expected")
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
        for each in compare(worked.launch, launch)
        if each.name not in _SAID_ABOUT and each.before != each.after
    }
    weighed = [_weigh(each, differences, worked) for each in findings]
    return sorted(weighed, key=lambda each: SEVERITIES.index(each.severity))


def _weigh(
    finding: LintFinding, differences: dict[str, Difference], worked: LastGoodRun
) -> LintFinding:
    if finding.severity == "info" or finding.rule in admission.NOW:
        return finding
    start = f"version {worked.version}, ready here on {worked.day:%d %b %Y}"
    if not differences:
        severity = "warning" if finding.severity == "error" else finding.severity
        yours = f"Yours last started with exactly these settings ({start})."
        return replace(finding, severity=severity, yours=yours)
    if finding.about in _MISSING:
        return finding
    name = finding.about.replace("_", "-") if finding.about.startswith("--") else finding.about
    return replace(finding, yours=_yours(finding.about, differences.get(name), start))


def _yours(about: str, difference: Difference | None, start: str) -> str:
    # A field of Launch has another name on the page.
    is_field = about.islower() and not about.startswith("-")
    if difference is None:
        had = f"the same {'setting' if is_field else about}"
    elif difference.before is None:
        return f"Yours last worked without {'this setting' if is_field else about} ({start})."
    else:
        had = f"{'this setting at' if is_field else about} {difference.before}".rstrip()
    return f"Yours last worked with {had} ({start})."
