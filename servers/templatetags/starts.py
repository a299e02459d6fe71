"""Where a start is, for cards and pages."""

from django import template

from servers.judge.starting import Start
from servers.models import Box, Run

register = template.Library()


@register.filter
def starting_on(run: Run, box: Box) -> Start | None:
    """Where the run's start on this box is; None before its container started."""
    return run.where_it_starts(run.version.launch, unified=box.is_unified)


@register.filter
def stuck_on(run: Run, box: Box) -> tuple[str, str]:
    """What a deadlock of the run looks like and what to do; two "" where there is none."""
    return run.stuck_words(run.version.launch.engine, unified=box.is_unified)
