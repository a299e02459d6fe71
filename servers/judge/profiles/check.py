"""A rule of the lint that is code, because its judgement is arithmetic or a look-up."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from servers.judge.profiles import lint_rules
from servers.judge.profiles.facts import LaunchFacts
from servers.judge.profiles.subject import LintFinding, Severity
from servers.launch.engines.change import LaunchChange


@dataclass(frozen=True, kw_only=True)
class CheckHit:
    """What a check found. `severity` is None for the check's own."""

    says: str
    about: str
    fix: LaunchChange | None = None
    severity: Severity | None = None
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Check:
    id: str
    severity: Severity
    source: tuple[str, ...]  # names in rules/sources.yaml
    hits: Callable[[LaunchFacts], Iterator[CheckHit]]
    # It says less than a rule about the same flag or variable, and gives way to one that is at
    # least this loud; None: to none.
    gives_way: Severity | None = None

    def judge(self, facts: LaunchFacts) -> list[LintFinding]:
        known = lint_rules.sources()
        return [
            LintFinding(
                rule=self.id,
                severity=hit.severity or self.severity,
                says=hit.says,
                about=hit.about,
                fix=hit.fix,
                sources=tuple(known[name] for name in self.source),
                unknown=hit.unknown,
            )
            for hit in self.hits(facts)
        ]
