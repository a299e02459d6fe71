"""Cards of servers: groups, order, GPUs, the fix of a failure, usage, claims, clusters."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Protocol

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from servers.contexts import external
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.people import claims
from servers.models import Claim, Run, Server
from servers.models.runs.run import RunState
from servers.templatetags.format import ago, since
from servers.templatetags.launches import change_words

register = template.Library()

# In the order of the page; the words of the filter's buttons.
GROUPS = {
    "failed": "Failed",
    "unhealthy": "Unhealthy",
    "starting": "Starting",
    "ready": "Ready",
    "stopped": "Stopped",
}
_STARTING = (RunState.QUEUED, RunState.PULLING, RunState.CREATING, RunState.STARTING)


@register.filter
def group_of(server: Server) -> str:
    run = server.run
    if run is None:
        return "stopped"
    if run.is_unhealthy:
        return "unhealthy"
    if run.state in _STARTING:
        return "starting"
    return run.state if run.state in ("failed", "ready") else "stopped"


@register.filter
def in_card_order(servers: Iterable[Server]) -> list[Server]:
    """A person's favourites first, then what needs a look, then what runs."""
    order = list(GROUPS)
    return sorted(
        servers,
        key=lambda each: (not each.is_favourite, order.index(group_of(each)), each.slug),  # type: ignore[attr-defined]
    )


@register.filter
def count_groups(servers: Iterable[Server]) -> list[tuple[str, str, int]]:
    """Key, word and number of each group, for the buttons that filter by it."""
    found = [group_of(each) for each in servers]
    return [(key, word, found.count(key)) for key, word in GROUPS.items()]


@register.filter
def list_boxes(servers: Iterable[Server]) -> list[str]:
    """The boxes that they are on, by name."""
    return sorted({each.box.slug for each in servers})


@register.filter
def gpu_words(server: Server) -> str:
    """ "GPUs 0, 1", in which only the commas are places to break a line at."""
    said = (server.run.gpus if server.run and server.run.is_active else "") or server.launch.gpus
    if said == "none":
        return "CPU"
    indices = server.box.indices(said)
    if indices is None:
        return said
    if not indices:
        return "all GPUs"
    return f"GPU{'s' * (len(indices) > 1)}\u00a0{', '.join(map(str, sorted(indices)))}"


@register.filter
def fix_words(server: Server) -> str:
    """What the first fix of its failure changes, in the words of a command line; "" without one."""
    run = server.run
    if run is None or run.state != RunState.FAILED or not run.log.cause:
        return ""
    return _read_fix(run.pk, run.created_at, server.profile.current_id or 0)


# Each costs some queries, and a page is rendered anew each second: a run's is read once a version.
@lru_cache(maxsize=256)
def _read_fix(pk: int, _created_at: datetime, _version: int) -> str:
    runs = Run.objects.select_related("server__profile__current", "server__box", "version", "log")
    change = diagnoses.find_first_change(runs.get(pk=pk))
    return change_words(change) if change else ""


class RequestTimes(Protocol):
    """What is told of a run."""

    @property
    def requests_running(self) -> int | None: ...
    @property
    def last_request_at(self) -> datetime | None: ...
    @property
    def ready_at(self) -> datetime | None: ...


@register.filter
def use_words(run: Run | RequestTimes) -> SafeString | str:
    """ "2 requests running", "no request for 3 h 12 min"; what is not known is said to be so."""
    use = run.health if isinstance(run, Run) else run
    count, last = use.requests_running, use.last_request_at
    if count:
        return f"{count} request{'' if count == 1 else 's'} running"
    if count is None and last:
        said = "last used here {}; its engine does not report other users"
        return format_html(said, ago(last))
    if count is None:
        return "usage unknown: metrics are off"
    if last:
        return format_html("no request for {}", since(last))
    if run.ready_at:
        return format_html("no requests yet, ready {}", ago(run.ready_at))
    return "no request yet"


@register.filter
def of_gpu(found: Iterable[Claim], index: int) -> list[Claim]:
    return [each for each in found if index in each.gpus]


@register.filter
def claims_on(server: Server) -> list[Claim]:
    """Of it, or of the GPUs that its run has."""
    return [each for each in server.box.current_claims if each.covers(server)]


register.filter("claims_against", claims.against_stop)
register.simple_tag(external.cluster_of)
register.simple_tag(external.ray_workers)
