"""Why a run failed and what to change, for its page."""

from django import template

from servers.lifecycle import diagnoses
from servers.lifecycle.diagnoses import Why
from servers.models import Run

register = template.Library()


@register.filter
def explained(run: Run) -> Why:
    return diagnoses.explained(run)
