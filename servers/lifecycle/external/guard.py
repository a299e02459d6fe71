"""The guard of external engines: nothing is done to them through inferdash."""

from django.core.exceptions import PermissionDenied

from servers.judge.external.engines import Origin
from servers.models import Server


class ExternalRunError(PermissionDenied):
    """Somebody wants something done to a server that is only watched; a page answers 403."""


def check(server: Server) -> None:
    """Raises WatchedError for a server that is watched."""
    if not server.is_watched:
        return
    run = server.run
    by = f" ({Origin.from_json(run.start.origin).started_by})" if run is not None else ""
    raise ExternalRunError(
        f"{server} is only watched: somebody else has started it{by}, and inferdash touches "
        "nothing of it. Start and stop it where it was started."
    )
