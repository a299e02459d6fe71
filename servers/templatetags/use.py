"""Usage of a server, in words."""

from datetime import datetime
from typing import Protocol

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from servers.templatetags.format import ago, since

register = template.Library()


class RequestTimes(Protocol):
    """A run, or what is told of one."""

    @property
    def requests_running(self) -> int | None: ...
    @property
    def last_request_at(self) -> datetime | None: ...
    @property
    def ready_at(self) -> datetime | None: ...


@register.filter
def use_words(run: RequestTimes) -> SafeString | str:
    """ "2 requests running", "no request for 3 h 12 min"; what is not known is said to be so."""
    count = run.requests_running
    if count:
        return f"{count} request{'' if count == 1 else 's'} running"
    if count is None and run.last_request_at:
        said = "last used here {}; its engine does not report other users"
        return format_html(said, ago(run.last_request_at))
    if count is None:
        return "usage unknown: metrics are off"
    if run.last_request_at:
        return format_html("no request for {}", since(run.last_request_at))
    if run.ready_at:
        return format_html("no requests yet, ready {}", ago(run.ready_at))
    return "no request yet"
