"""Reclaim of memory that the kernel caches and the driver keeps."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from servers.host.kernel import page_cache as host
from servers.host.kernel.proc import Kernel
from servers.judge.memory.pools import GIB, Pool, pools
from servers.judge.runs import limits
from servers.lifecycle.runs import creation, secret_env
from servers.models import Box, Run
from servers.models.runs.run import RunState

LEVELS = (1, 2, 3)
_LOADED = (RunState.CREATING, RunState.STARTING, RunState.READY, RunState.STOPPING)


class ReclaimError(Exception):
    """It was not done; the text says why. `command` is for whoever has a shell there."""

    def __init__(self, said: str, command: str = "") -> None:
        super().__init__(said)
        self.command = command


def command(level: int) -> str:
    return f"sudo sh -c 'sync; echo {level} > /proc/sys/vm/drop_caches'"


def objection(box: Box, sample: Mapping[str, Any] | None) -> str:
    """Why nobody should do it now; "" where nothing speaks against it."""
    busy = Run.objects.filter(server__box=box, state__in=_LOADED).select_related("server").first()
    if busy is not None:
        return (
            f"{busy.server} is {busy.state} on {box}: its files would have to be read from disk "
            "again, and its memory is in use. Stop it first."
        )
    there = [
        f"{each.name or 'a process'} ({each.pid})"
        for pool in pools(sample or {})
        if isinstance(pool, Pool)
        for each in pool.clients
        if not each.is_desktop
    ]
    if there:
        return f"{there[0]} is on a GPU of {box}: it may be an engine that loads. End it first."
    return ""


def reclaim(box: Box, sample: Mapping[str, Any] | None, level: int) -> str:
    """What it has freed, in a sentence. Raises RefusedError; ContainerError when Docker refuses."""
    if level not in LEVELS:
        raise ReclaimError(f"There is no level {level} of it.")
    if why := objection(box, sample):
        raise ReclaimError(why)
    try:
        is_allowed = creation.read_limits().reclaim
    except secret_env.SecretsError as refusal:
        raise ReclaimError(str(refusal), command(level)) from refusal
    if not is_allowed:
        raise ReclaimError(
            f"{box} does not let inferdash do this, as it takes root's rights. "
            f"{limits.granted_by(settings.MANAGE, 'reclaim')}. Or type it there:",
            command(level),
        )
    before = _free()
    host.drop_caches(creation.docker(), root=settings.HOST_ROOT, level=level)
    after = _free()
    freed = after - before
    figures = f"{before / GIB:.1f} GiB were free before, {after / GIB:.1f} GiB are now"
    if freed < GIB / 10:
        return f"It freed next to nothing: {figures}."
    return f"Freed {freed / GIB:.1f} GiB: {figures}."


def _free() -> int:
    return Kernel(root=settings.KERNEL_ROOT).meminfo().get("MemFree", 0)
