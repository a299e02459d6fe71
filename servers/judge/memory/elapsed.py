"""Time as it went by between a box's snapshots, whatever its clock was set to meanwhile."""

from servers.judge.memory.pools import Snapshot

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
