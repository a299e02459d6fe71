"""The pull of a profile's image, for a tag that may mean a newer one."""

import time
from collections.abc import Callable

from servers.host.docker.containers import ContainerError, PullState
from servers.judge.memory.pools import GIB
from servers.lifecycle.images import tags
from servers.lifecycle.runs import creation
from servers.models import Box, Server

_TELL_EVERY = 2.0  # seconds
_SHORT = 19  # characters of an id: "sha256:" and twelve


def is_used(box: Box, reference: str) -> bool:
    """Whether a server of the box would run this image at its next start."""
    servers = Server.objects.filter(box=box, removed_at=None).select_related("profile__current")
    return any(
        server.profile.current is not None and server.launch.image == reference
        for server in servers
    )


def can_change(reference: str) -> bool:
    """Whether the same reference may mean another image tomorrow."""
    return bool(reference) and "@" not in reference


def pull(reference: str, tell: Callable[[str], None]) -> str:
    """What came of it, in a sentence; `tell` hears how far it is. Raises ContainerError."""
    docker = creation.docker()
    before = docker.image(reference)
    told_at = 0.0

    def hear(progress: PullState) -> bool:
        nonlocal told_at
        if time.monotonic() - told_at >= _TELL_EVERY:
            told_at = time.monotonic()
            of = f" of {progress.total / GIB:.1f}" if progress.total else ""
            tell(f"{progress.done / GIB:.1f}{of} GiB of {reference} so far.")
        return True

    docker.pull(reference, hear)
    after = docker.image(reference)
    if after is None:
        raise ContainerError(f"{reference} was pulled but is not there.", kind="no_image")
    if before is None:
        return f"{reference} is there now. The next start takes it."
    if before.id == after.id:
        return f"{reference} is the newest already: its registry has no other under this name."
    tags.keep(docker, before)
    return (
        f"{reference} is a newer image now ({after.id[:_SHORT]} instead of {before.id[:_SHORT]}). "
        "The next start takes it; starting an earlier run as it ran still takes the old one."
    )
