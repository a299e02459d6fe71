"""The lint: what is known to fail, or to disappoint, before a start."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from servers.judge.profiles import admission, container_rules, lint_rules, parallelism, vocabulary
from servers.judge.profiles.facts import SEVERITIES, LaunchFacts, LintFinding, Severity, Subject
from servers.judge.profiles.lint_rules import Check, LintRule
from servers.launch.engines import ENGINES
from servers.launch.engines.launch import fill_parameters

CHECKS: tuple[Check, ...] = (
    *parallelism.CHECKS,
    *container_rules.CHECKS,
    *admission.CHECKS,
    *vocabulary.CHECKS,
)


# Some pages of the longest list of profiles.
KEPT = 2000


def lint(subject: Subject) -> list[LintFinding]:
    """Every finding, the worst first.

    Nothing is an error while what decides it is not known: such a finding says what is
    missing, or is left out. A check that only knows the engine's lists gives way to a rule
    that knows more about the same flag or variable.
    """
    subject = replace(subject, launch=fill_parameters(subject.launch))
    facts = LaunchFacts(subject)
    lasting = _extract_lasting(_Question.from_subject(subject))
    found = list(lasting.of_rules)
    for check in CHECKS if ENGINES[facts.engine].serves_models else container_rules.CHECKS:
        kept = lasting.of_checks.get(check.id)
        hits = check.judge(facts) if kept is None else kept
        found += [each for each in hits if not _is_said(each, found, check.gives_way)]
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))


@dataclass(frozen=True, kw_only=True)
class _Question:
    """A subject without its rooms, of which only admission.CHECKS want to know: the memory that is
    free is another with every sample, and all else is judged once."""

    words: str
    # By its identity, which stays while this holds the subject: one is made for each answer.
    flaglist: int
    subject: Subject = field(compare=False)

    @classmethod
    def from_subject(cls, subject: Subject) -> "_Question":
        subject = replace(subject, rooms=None)
        return cls(
            words=repr(replace(subject, flaglist=None)),
            flaglist=id(subject.flaglist),
            subject=subject,
        )


@dataclass(frozen=True, kw_only=True)
class _Lasting:
    of_rules: tuple[LintFinding, ...]
    of_checks: dict[str, list[LintFinding]]


@lru_cache(maxsize=KEPT)
def _extract_lasting(question: _Question) -> _Lasting:
    facts = LaunchFacts(question.subject)
    checks = CHECKS if ENGINES[facts.engine].serves_models else container_rules.CHECKS
    return _Lasting(
        of_rules=tuple(hit for rule in lint_rules.load_shipped() if (hit := rule.judge(facts))),
        of_checks={each.id: each.judge(facts) for each in checks if each.id not in admission.NOW},
    )


def rules() -> dict[str, LintRule | Check]:
    """Every rule by its id, with its severity and sources."""
    every: list[LintRule | Check] = [*lint_rules.load_shipped(), *CHECKS]
    return {each.id: each for each in every}


def _is_said(finding: LintFinding, others: Iterable[LintFinding], least: Severity | None) -> bool:
    """Whether somebody loud enough speaks of the same flag or variable."""
    if least is None:
        return False
    word = re.compile(rf"(?<![\w-]){re.escape(finding.about)}(?![\w-])")
    return any(
        SEVERITIES.index(other.severity) <= SEVERITIES.index(least)
        and (other.about == finding.about or word.search(other.says))
        for other in others
    )
