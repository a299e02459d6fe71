"""The kinds of servers and runs: what inferdash has started, and what somebody else has.

They are had from `filter_managed()` and `filter_external()` and, of a row at hand, from here and
from lifecycle.runs.ownership.
"""

from typing import NewType, TypeGuard

from servers.models.runs.run import Run
from servers.models.runs.server import Server

ManagedRun = NewType("ManagedRun", Run)
ManagedServer = NewType("ManagedServer", Server)
ExternalRun = NewType("ExternalRun", Run)
ExternalServer = NewType("ExternalServer", Server)


def is_managed(run: Run) -> TypeGuard[ManagedRun]:
    return not run.is_watched
