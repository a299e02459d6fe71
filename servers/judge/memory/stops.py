"""Engines that ended lately, the processes that they left, and the thresholds for both.

The rule is that of docs/gpu-memory.md, where the names stand too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
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


GIB = 2**30

_PAIR = re.compile(r"([a-z_]+)(?:\.([a-z]+))?=([0-9]{1,6}(?:\.[0-9]{1,3})?)")
# Told in GiB; the others in seconds, or as a share.
_SIZES = (
    *("baseline", "baseline_most", "baseline_growth", "falling", "warn", "bad", "residual"),
    *("host_growth", "boot_growth"),
)


@dataclass(frozen=True, kw_only=True)
class MemoryThresholds:
    """Each by the kind of pool where that makes a difference."""

    baseline: Mapping[str, int] = field(
        default_factory=lambda: {"unified": 3 * GIB, "discrete": 600 << 20, "numa": 2 * GIB}
    )
    # A baseline that was measured counts up to here: it may have been measured after a loss.
    baseline_most: Mapping[str, int] = field(
        default_factory=lambda: {"unified": 6 * GIB, "discrete": 2 * GIB, "numa": 6 * GIB}
    )
    baseline_growth: int = 2 * GIB  # over the best of earlier boots
    grace: Mapping[str, float] = field(
        default_factory=lambda: {"unified": 240.0, "discrete": 30.0, "numa": 240.0}
    )
    falling: int = GIB // 2  # within `falling_within`: it is on its way back
    falling_within: float = 10.0
    falling_grace: float = 60.0
    warn: tuple[int, float] = (2 * GIB, 0.02)  # the larger of bytes and share of the pool
    bad: tuple[int, float] = (6 * GIB, 0.05)
    enter_after: float = 60.0
    leave_after: float = 30.0
    leave_below: float = 0.7  # of `bad`
    residual: int = GIB // 2
    missing_for: float = 30.0  # a process that the driver lists and the kernel does not have
    stuck_for: float = 60.0
    stuck_running_for: float = 300.0  # while its container runs: it may be reading a slow disk
    reclaim_takes: float = 30.0
    reclaim_unchanged: float = 0.9  # of what was missing before
    booting: float = 120.0
    idle_after_stop: float = 300.0
    cache_share: float = 0.1
    host_growth: int = 8 * GIB
    boot_growth: int = 5 * GIB  # more than the best of earlier boots, from this one's start on
    boot_seen: float = 600.0  # of uptime, until which a boot counts as seen from its start

    def compute_limit(self, limit: tuple[int, float], total: int) -> int:
        return max(limit[0], int(limit[1] * total))


def read_thresholds(text: str) -> MemoryThresholds:
    """Those of pairs such as `grace=60 grace.unified=120 bad=8`, sizes in GiB, times in seconds.

    What is not named is as usual. Raises ValueError with a sentence.
    """
    found = MemoryThresholds()
    names = {each.name for each in fields(MemoryThresholds)}
    for pair in text.replace(",", " ").split():
        match = _PAIR.fullmatch(pair)
        if match is None or match[1] not in names:
            raise ValueError(
                f"“{pair[:40]}” is no threshold. Write name=number, with a name of: "
                f"{', '.join(sorted(names))}."
            )
        found = replace(
            found, **{match[1]: _parse_threshold(found, match[1], match[2] or "", match[3])}
        )
    return found


def _parse_threshold(found: MemoryThresholds, name: str, kind: str, number: str) -> Any:
    value = int(float(number) * GIB) if name in _SIZES else float(number)
    before = getattr(found, name)
    if isinstance(before, Mapping):
        if kind and kind not in before:
            raise ValueError(f"“{name}.{kind}”: there are {', '.join(before)}.")
        return {each: value if kind in ("", each) else old for each, old in before.items()}
    if kind:
        raise ValueError(f"“{name}” is the same for every kind of memory.")
    return (value, before[1]) if isinstance(before, tuple) else value


# A clock that is slewed differs by less from one snapshot to the next; by more, it was set.
_SET = 10.0


class Elapsed:
    """Goes on from the first snapshot's time; by the kernel's uptime where the clock was set."""

    def __init__(self) -> None:
        self._now: float | None = None
        self._clock = 0.0
        self._uptime: float | None = None

    def see(self, snapshot: Snapshot) -> float:
        """The moment of the next snapshot."""
        clock, uptime = float(snapshot["t"]), snapshot.get("uptime_s")
        passed = clock - self._clock
        if uptime is not None and self._uptime is not None:
            up = float(uptime) - self._uptime
            # A recording may have one uptime throughout, which tells nothing.
            if up > 0 and abs(passed - up) > _SET:
                passed = up
        self._now = clock if self._now is None else self._now + max(0.0, passed)
        self._clock, self._uptime = clock, uptime
        return self._now


class BootTracker:
    """Whether a snapshot is the first of another boot than the one before it."""

    def __init__(self) -> None:
        self._id: object = None
        self._uptime: float | None = None

    def is_new(self, snapshot: Snapshot) -> bool:
        """By the boot's id; where one of the two has none, by an uptime that went back."""
        now, uptime = snapshot.get("boot_id") or None, snapshot.get("uptime_s")
        if now is not None and self._id is not None:
            found = now != self._id
        else:
            found = uptime is not None and uptime < (self._uptime or 0) - _SET
        self._id = now if now is not None or found else self._id
        self._uptime = uptime if uptime is not None or found else self._uptime
        return bool(found)
