"""Processes of a sample that belong to a monitored process.

A sample tells of processes in containers whose they are; of those in none this does, so that
everything that counts by containers counts them alike.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings

from servers.host.kernel import process_id
from servers.host.kernel.proc import Kernel
from servers.host.kernel.process_id import ProcessId
from servers.models import Box, Run
from servers.models.runs.run import ACTIVE

# Seconds after which somebody looks whether it is still watched.
_LOOK_EVERY = 5.0
_DEEPEST = 12  # generations between an engine and its worker


class ProcessTree:
    def __init__(self, wake: Callable[[], None], kernel: Kernel | None = None) -> None:
        self._wake = wake
        self._kernel = kernel or Kernel(root=settings.KERNEL_ROOT)
        self._followed: dict[tuple[int, int], str] = {}  # number and start: the run's key
        # Of every process that was seen: whose it is, also when its parent has ended before it.
        self._owners: dict[tuple[int, int], str] = {}
        self._waiting: dict[str, threading.Thread] = {}

    def follow(self, box: Box) -> None:
        """Look anew at which of the box's processes are watched."""
        active = Run.objects.filter(server__box=box, is_watched=True, state__in=ACTIVE)
        keys = active.filter(container_id__startswith="pid-").values_list("container_id", flat=True)
        known = {key: life for key in keys if (life := ProcessId.parse(key)) is not None}
        self._followed = {(life.pid, life.start): key for key, life in known.items()}
        for key, life in known.items():
            thread = self._waiting.get(key)
            if thread is None or not thread.is_alive():
                self._waiting[key] = threading.Thread(
                    target=self._wait, args=[key, life], name=f"end-{life.pid}", daemon=True
                )
                self._waiting[key].start()

    def _wait(self, key: str, life: ProcessId) -> None:
        while (life.pid, life.start) in self._followed:
            if process_id.ends_within(life, _LOOK_EVERY):
                self._wake()
                return

    def label_processes(self, sample: dict[str, Any]) -> dict[str, Any]:
        """The sample, in which each process has a container's id or the key of who is watched."""
        if not self._followed and not self._owners:
            return sample
        said = {name: [self._one(each) for each in sample.get(name) or []] for name in _LISTS}
        there = {(each["pid"], each["start"]) for name in _LISTS for each in said[name]}
        self._owners = {life: key for life, key in self._owners.items() if life in there}
        return sample | said

    def _one(self, process: Mapping[str, Any]) -> dict[str, Any]:
        if process.get("container"):
            return dict(process)
        life = (process["pid"], process["start"])
        owner = self._owners.get(life) or self._owner(*life)
        if not owner:
            return dict(process)
        self._owners[life] = owner
        return {**process, "container": owner}

    def _owner(self, pid: int, start: int) -> str:
        for _generation in range(_DEEPEST):
            if found := self._followed.get((pid, start)):
                return found
            said = self._kernel.life(pid)
            parent = self._kernel.life(said.ppid) if said and said.ppid > 1 else None
            if said is None or parent is None:
                return ""
            pid, start = said.ppid, parent.start
        return ""


_LISTS = ("processes", "programs")
