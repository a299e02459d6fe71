"""What is known to fail, or to disappoint, about a launch before it starts."""

import re
from collections.abc import Iterable
from dataclasses import replace

from servers.engines import ENGINES, parameters
from servers.judge import admission, parallelism, rulebook, surroundings, vocabulary
from servers.judge.check import Check
from servers.judge.facts import Facts
from servers.judge.rulebook import Rule
from servers.judge.subject import SEVERITIES, Finding, Severity, Subject

CHECKS: tuple[Check, ...] = (
    *parallelism.CHECKS,
    *surroundings.CHECKS,
    *admission.CHECKS,
    *vocabulary.CHECKS,
)


def lint(subject: Subject) -> list[Finding]:
    """Every finding, the worst first.

    Nothing is an error while what decides it is not known: such a finding says what is
    missing, or is left out. A check that only knows the engine's lists gives way to a rule
    that knows more about the same flag or variable.
    """
    subject = replace(subject, launch=parameters.fill(subject.launch))
    facts = Facts(subject)
    checks = CHECKS if ENGINES[facts.engine].serves_models else surroundings.CHECKS
    found = [finding for rule in rulebook.shipped() if (finding := rule.judge(facts))]
    for check in checks:
        hits = check.judge(facts)
        found += [each for each in hits if not _is_said(each, found, check.gives_way)]
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))


def rules() -> dict[str, Rule | Check]:
    """Every rule by its id, with its severity and sources."""
    every: list[Rule | Check] = [*rulebook.shipped(), *CHECKS]
    return {each.id: each for each in every}


def _is_said(finding: Finding, others: Iterable[Finding], least: Severity | None) -> bool:
    """Whether somebody loud enough speaks of the same flag or variable."""
    if least is None:
        return False
    word = re.compile(rf"(?<![\w-]){re.escape(finding.about)}(?![\w-])")
    return any(
        SEVERITIES.index(other.severity) <= SEVERITIES.index(least)
        and (other.about == finding.about or word.search(other.says))
        for other in others
    )
