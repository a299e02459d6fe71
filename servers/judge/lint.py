"""What is known to fail, or to disappoint, about a launch before it starts."""

from collections.abc import Iterable

from servers.judge import parallelism, rulebook, surroundings, vocabulary
from servers.judge.check import Check
from servers.judge.facts import Facts
from servers.judge.rulebook import Rule
from servers.judge.subject import SEVERITIES, Finding, Subject

CHECKS: tuple[Check, ...] = (*parallelism.CHECKS, *surroundings.CHECKS, *vocabulary.CHECKS)


def lint(subject: Subject) -> list[Finding]:
    """Every finding, the worst first.

    Nothing is an error while what decides it is not known: such a finding says what is
    missing, or is left out. A check that only knows the engine's lists gives way to a rule
    that knows more about the same flag or variable.
    """
    facts = Facts(subject)
    found = [finding for rule in rulebook.shipped() if (finding := rule.judge(facts))]
    for check in CHECKS:
        hits = check.judge(facts)
        found += [each for each in hits if not (check.gives_way and _is_said(each, found))]
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))


def rules() -> dict[str, Rule | Check]:
    """Every rule by its id, with its severity and sources."""
    every: list[Rule | Check] = [*rulebook.shipped(), *CHECKS]
    return {each.id: each for each in every}


def _is_said(finding: Finding, others: Iterable[Finding]) -> bool:
    """Whether somebody said something at least as bad about the same."""
    loudness = SEVERITIES.index(finding.severity)
    return any(
        other.about == finding.about and SEVERITIES.index(other.severity) <= loudness
        for other in others
    )
