"""What is known to fail, or to disappoint, about a launch before it starts."""

from servers.judge import rulebook
from servers.judge.facts import Facts
from servers.judge.subject import SEVERITIES, Finding, Subject


def lint(subject: Subject) -> list[Finding]:
    """Every finding, the worst first. Nothing is an error while what decides is not known."""
    facts = Facts(subject)
    found = [hit for rule in rulebook.shipped() if (hit := rule.judge(facts)) is not None]
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))
