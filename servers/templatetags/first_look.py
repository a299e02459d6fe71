"""First look at boxes that have no server yet."""

from django import template

from servers.contexts import dashboard
from servers.contexts.dashboard import BoxSummary

register = template.Library()


@register.simple_tag
def boxes_found() -> list[BoxSummary]:
    return dashboard.list_summaries()
