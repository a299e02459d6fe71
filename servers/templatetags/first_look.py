"""First look at boxes that have no server yet."""

from django import template

from servers.contexts.external import first_look
from servers.contexts.external.first_look import BoxSummary

register = template.Library()


@register.simple_tag
def boxes_found() -> list[BoxSummary]:
    return first_look.list_summaries()
