"""Engines that ended lately, and the processes that they left."""

import re
from datetime import datetime
from typing import Any

from servers.judge.memory.pools import PoolProcess, Snapshot

# More than the kernel and Docker differ by in telling when something began or ended.
_CLOCKS_DIFFER = 5.0
_SHORT_ID = 12
_ID = re.compile(r"[0-9a-f]{12,64}")
_RUNNING = ("running", "paused", "restarting")


class Stops:
    """Reads the containers and processes of snapshots, in their order."""

    def __init__(self) -> None:
        self._running: set[str] = set()
        self._listed: set[str] = set()
        self.has_running = False  # one of ours
        self._ours: dict[str, float | None] = {}  # container -> when it ended; None: not yet
        self._others: dict[str, float] = {}  # of those that are not: what their clock said
        self._last = float("-inf")
        self._clients: dict[int, bool] = {}  # pid -> the kernel knows it

    def see(self, snapshot: Snapshot, clock: float) -> None:
        """`clock` is what the box's clock shows at the moment `t`, which no clock is set to."""
        t = float(snapshot["t"])
        # A list that could not be made, unlike one that is empty, says of nobody that he ended.
        if snapshot.get("containers") is not None:
            self._see_containers(snapshot["containers"], t, clock)
        self._see_clients(snapshot, t)

    def _see_containers(self, listed: list[dict[str, Any]], t: float, clock: float) -> None:
        containers = {_key(each["id"]): each for each in listed}
        for each in containers.values():
            self._see_container(each, t, clock)
        for gone in self._ours.keys() - containers.keys():
            self._note_end(gone, t)
        self._listed = set(containers)
        self._running = {i for i, each in containers.items() if each.get("state") in _RUNNING}
        self.has_running = any(containers[i].get("ours") for i in self._running)

    def _see_container(self, container: dict[str, Any], t: float, clock: float) -> None:
        name = _key(container["id"])
        if container.get("state") in (None, "created"):
            return  # it has not run yet, or nobody knows
        if container.get("state") in _RUNNING:
            if container.get("ours"):
                self._ours[name] = None
            return
        stopped = _seconds(container.get("stopped_at"))
        # By how long ago that was: clocks are set, and Docker's may be another machine's.
        moment = t if stopped is None else t - max(0.0, clock - stopped)
        if container.get("ours"):
            self._ours.setdefault(name, None)
            self._note_end(name, moment)
        elif stopped is not None and self._others.get(name) != stopped:
            self._others[name] = stopped
            self._last = max(self._last, moment)

    def _note_end(self, container: str, t: float) -> None:
        if self._ours[container] is None:
            self._ours[container] = t
            self._last = max(self._last, t)

    def _see_clients(self, snapshot: Snapshot, t: float) -> None:
        if snapshot.get("collector_ok") is False or snapshot.get("stale_s") is not None:
            return
        known = {each["pid"] for each in snapshot.get("processes") or [] if "pid" in each}
        listed = {
            each["pid"]
            for card in snapshot.get("gpus") or []
            for each in card.get("processes") or []
            if "pid" in each
        }
        now = {pid: pid in known for pid in listed}
        if any(card.get("processes") is None for card in snapshot.get("gpus") or []):
            now = {**self._clients, **now}  # who is not listed there may be there
        # An engine that no container holds ends, too; and one that the kernel has already
        # buried may stay on the driver's list a while.
        ended = [pid for pid, was in self._clients.items() if was and not now.get(pid)]
        if ended:
            self._last = max(self._last, t)
        self._clients = now

    def seconds_since(self, snapshot: Snapshot) -> float:
        """Since the latest end; infinite where none was seen."""
        return float(snapshot["t"]) - self._last

    def still_runs(self, client: PoolProcess) -> bool:
        """Whether the container that a process belongs to is running."""
        return _key(client.container) in self._running

    def is_left_over(self, client: PoolProcess) -> bool:
        """Whether a process is one of ours that its container has not taken with it.

        Either its container has ended, or it was left to the first process of the box, is
        called as an engine's workers are, and began while one of our containers was there.
        """
        container = _key(client.container)
        if container in self._ours:
            return self._ours[container] is not None
        if client.ppid != 1 or not client.is_worker or container in self._listed:
            return False
        if client.container:
            return True  # of a container that was deleted
        return any(
            ended is not None and (client.start is None or client.start <= ended + _CLOCKS_DIFFER)
            for ended in self._ours.values()
        )


def _key(container: str) -> str:
    """A container's id as `docker ps` and as a cgroup shortens it, too."""
    return container[:_SHORT_ID] if _ID.fullmatch(container) else container


def _seconds(moment: object) -> float | None:
    if isinstance(moment, (int, float)):
        return float(moment)
    if isinstance(moment, str) and moment:
        try:
            return datetime.fromisoformat(moment).timestamp()
        except ValueError:
            return None
    return None
