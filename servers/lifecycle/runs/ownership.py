"""The boundary between what inferdash has started and what somebody else has: never touch theirs.

A verb takes a ManagedRun or a ManagedServer. Both are had from the rows' `filter_managed()` and from
here alone, so that mypy refuses anything else; a NewType is gone at run time, so `verb` asks again.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, overload

from django.core.exceptions import PermissionDenied

from servers.judge.external.engines import Origin
from servers.models import Run, Server
from servers.models.runs.run import ExternalRun, ExternalServer, ManagedRun, ManagedServer


class ExternalRunError(PermissionDenied):
    """Somebody wants something done to what is only watched; a page answers 403."""


@overload
def require_managed(row: Run) -> ManagedRun: ...
@overload
def require_managed(row: Server) -> ManagedServer: ...
def require_managed(row: Any) -> Any:
    """The same as one that verbs take. Raises ExternalRunError for what is only watched."""
    if not row.is_watched:
        return row
    server, run = (row.server, row) if isinstance(row, Run) else (row, row.run)
    by = f" ({Origin.from_json(run.start.origin).started_by})" if run is not None else ""
    raise ExternalRunError(
        f"{server} is only monitored: it was started outside inferdash{by}, and inferdash touches "
        "nothing of it. Start and stop it where it was started."
    )


@overload
def require_external(row: Run) -> ExternalRun: ...
@overload
def require_external(row: Server) -> ExternalServer: ...
def require_external(row: Any) -> Any:
    """The same as one that is only watched. Raises ValueError for what inferdash manages."""
    if not row.is_watched:
        raise ValueError(f"{row} is inferdash's own: it is not only watched.")
    return row


def verb[M: (ManagedRun, ManagedServer, ExternalRun, ExternalServer), **P, R](
    does: Callable[Concatenate[M, P], R],
) -> Callable[Concatenate[M, P], R]:
    """Something done to what it is given first, which raises for one of the other kind."""
    takes = next(iter(signature(does).parameters.values())).annotation
    require: Callable[[Any], object] = (
        require_external if takes in (ExternalRun, ExternalServer) else require_managed
    )

    @wraps(does)
    def check(row: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
        require(row)
        return does(row, *args, **kwargs)

    return check
