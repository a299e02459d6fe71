"""Comparison of two runs of a server: what differs in what was started, and around it."""

from collections.abc import Sequence
from dataclasses import dataclass

from servers.launch import numbers
from servers.launch.engines.change import Difference, compare_launches
from servers.lifecycle.logs import diagnoses
from servers.lifecycle.logs.diagnoses import ChangedSince
from servers.models import Run, Server
from servers.models.runs.run import PARTS


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """`runs`: the earlier and the later one."""

    runs: tuple[Run, Run]
    changed: tuple[ChangedSince, ...]
    differences: tuple[Difference, ...]


def compare_runs(server: Server, chosen: Sequence[str]) -> RunComparison | None:
    """None where these are not the keys of two runs of it."""
    keys = {key for each in chosen if (key := numbers.whole(each)) is not None}
    found = server.runs.select_related("started_by", "version", "plan__repeats__start", *PARTS)
    runs = list(found.filter(pk__in=keys).order_by("created_at", "pk")) if len(keys) == 2 else []
    if len(runs) != 2:
        return None
    before, after = runs
    return RunComparison(
        runs=(before, after),
        changed=tuple(diagnoses.list_changes(before, after)),
        differences=tuple(compare_launches(before.launch, after.launch)),
    )
