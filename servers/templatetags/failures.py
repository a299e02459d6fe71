"""Failures and fixes, on a run's page."""

import re

from django import template

from servers.judge.memory.advice import REBOOT
from servers.judge.memory.orphans import Orphan
from servers.judge.profiles.facts import LintFinding
from servers.lifecycle.images import work
from servers.lifecycle.logs.diagnoses import FixStep
from servers.lifecycle.profiles import checks
from servers.models import Box, Run
from servers.models.jobs.job import JobKind

register = template.Library()

MOST_KNOWN = 4


@register.filter
def known_of(run: Run, box: Box) -> list[LintFinding]:
    """What is known to go wrong with such a launch, the worst first, some at most."""
    found = checks.findings(run.launch, box, run.server.profile)
    return [each for each in found if each.severity != "info"][:MOST_KNOWN]


@register.filter
def can_change(image: str) -> bool:
    """Whether a pull may bring another image."""
    return work.can_change(image)


@register.simple_tag
def reboot_command() -> str:
    return REBOOT


@register.filter
def can_be_ended(box: Box) -> list[Orphan]:
    """Processes that engines have left on the box, and that its page would end."""
    found = [Orphan.from_json(said) for said in box.left_behind]
    return [left for left in found if JobKind.KILL in left.actions]


@register.filter
def reclaim_level(step: FixStep) -> int:
    """What is to be dropped by the words of a remedy: 1, 2 or 3, as the kernel counts."""
    named = re.search(r"echo ([123])", step.says)
    return int(named[1]) if named else 3
