"""Cards of servers: their groups, their order, the GPUs they have, the fix of a failure."""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache

from django import template

from servers.lifecycle.logs import diagnoses
from servers.models import Run, Server
from servers.models.runs.run import RunState
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
def gpu_words(server: Server) -> str:
    """ "GPU 0, 1", in which only the commas are places to break a line at."""
    said = (server.run.gpus if server.run and server.run.is_active else "") or server.launch.gpus
    if said == "none":
        return "CPU"
    indices = server.box.indices(said)
    if indices is None:
        return said
    return f"GPU\u00a0{', '.join(map(str, sorted(indices)))}" if indices else "all GPUs"


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
