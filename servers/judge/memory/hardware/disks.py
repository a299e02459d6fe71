"""Disks that are full, nearly full, or soon full: models, Docker, shared memory."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from servers.judge.memory.hardware.duration import Lasting
from servers.judge.memory.hardware.finding import HardwareFinding, Severity
from servers.judge.memory.hardware.sample import GIB, HardwareSample

MIB = 2**20

# What a full one stops, by the names of models.memory.host_resources.
_WHAT = {
    "images": ("Docker's folder", "no image can be pulled and no log be written"),
    "cache": ("the models' folder", "no checkpoint can be downloaded"),
    "shm": ("shared memory", "engines with several GPUs cannot start"),
}
_ADVICE = {
    "images": "For Docker: “docker system df” shows what takes room, “docker image prune -a” removes images "
    "that no container uses; those of profiles are pulled again when they are needed.",
    "cache": "For checkpoints: “hf cache ls” shows which checkpoints lie there; remove those that no profile names, "
    "or move the folder to a larger disk.",
    "shm": "“ls -lhS /dev/shm” shows what lies there; the page of the box lists what no process "
    "uses any more.",
}

# The larger of GiB and part, but no more than the last: 5 % of a large disk is plenty.
_LITTLE, _NONE = (20 * GIB, 0.05, 100 * GIB), (5 * GIB, 0.01, 20 * GIB)
# Shared memory is as large as somebody made it.
_LITTLE_SHM, _NONE_SHM = 0.10, 0.02
_ENOUGH = 1.1  # of what is little

# Soon full: at the pace of the last minutes, and not much room left.
_PACE_WITHIN, _PACE_LEAST = 300.0, 60.0
_SOON = 1800.0
_SOON_BELOW = 0.25  # of the disk


class Disks:
    ids: ClassVar[tuple[str, ...]] = ("disk",)
    needs_cards: ClassVar[bool] = False

    def __init__(self) -> None:
        self._seen: dict[str, deque[tuple[float, int]]] = {}
        self._told = Lasting(enter=0, leave=30.0)
        self._full = Lasting(enter=0, leave=30.0)

    def step(self, now: HardwareSample) -> Iterator[HardwareFinding]:
        disks: Mapping[str, Mapping[str, Any]] = now.sample.get("disks") or {}
        for kinds in _by_place(disks):
            yield from self._judge(now, kinds, disks[kinds[0]])

    def _judge(
        self, now: HardwareSample, kinds: list[str], disk: Mapping[str, Any]
    ) -> Iterator[HardwareFinding]:
        path, free, total = str(disk["path"]), int(disk["free"]), int(disk["total"])
        if total <= 0:
            return
        is_shm = kinds[0] == "shm"
        pace = 0.0 if is_shm else self._pace(path, now.t, free)
        left = free / pace if pace > 0 else None
        little, none = _limits(total, is_shm)
        is_told = self._told.find_start(path, now.t, None) is not None
        was_full = self._full.find_start(path, now.t, None) is not None
        is_soon = left is not None and left < _SOON and free < _SOON_BELOW * total
        is_little = free < little * (_ENOUGH if is_told else 1)
        is_full = self._full.find_start(path, now.t, free < none * (_ENOUGH if was_full else 1))
        since = self._told.find_start(path, now.t, is_little or is_soon)
        if since is None:
            return
        severity: Severity = "critical" if is_full else "warning"
        what = " and ".join(_WHAT[each][0] for each in kinds)
        stops = ", and ".join(_WHAT[each][1] for each in kinds)
        stopped = f" {stops[0].upper()}{stops[1:]} any more." if severity == "critical" else ""
        soon = ""
        if left is not None and is_soon:
            soon = f", and it fills by {pace / MIB:.0f} MiB/s: full in {_span(left)}"
        yield HardwareFinding(
            rule="disk",
            subject=path,
            severity=severity,
            title=f"{'Shared memory' if is_shm else f'The disk of {what}'} ({path}) "
            f"{_how(severity, is_little)}",
            because=f"{free / GIB:.1f} of {total / GIB:.0f} GiB are free{soon}.{stopped}",
            advice=" ".join(_ADVICE[each] for each in kinds),
            since=since,
        )

    def _pace(self, path: str, t: float, free: int) -> float:
        """Bytes a second that it fills by; 0 while it does not, or was not watched for long."""
        seen = self._seen.setdefault(path, deque())
        if seen and t < seen[-1][0]:
            seen.clear()
        # Disks are looked at every ten seconds, and told with each sample.
        if not seen or free != seen[-1][1] or t - seen[-1][0] >= 10:
            seen.append((t, free))
        while len(seen) > 1 and seen[1][0] <= t - _PACE_WITHIN:
            seen.popleft()
        took = seen[-1][0] - seen[0][0]
        return max(0.0, (seen[0][1] - free) / took) if took >= _PACE_LEAST else 0.0


def _by_place(disks: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """Names of disks; those that lie on one file system together."""
    places: dict[Any, list[str]] = {}
    for kind in _WHAT:
        if kind in disks:
            place = disks[kind].get("device") or kind
            places.setdefault(place, []).append(kind)
    return list(places.values())


def _limits(total: int, is_shm: bool) -> tuple[int, int]:
    if is_shm:
        return int(total * _LITTLE_SHM), int(total * _NONE_SHM)
    least, none = (min(max(size, int(total * part)), most) for size, part, most in (_LITTLE, _NONE))
    # A disk that is smaller than that is judged by its parts alone.
    return min(least, total // 5), min(none, total // 20)


def _how(severity: Severity, is_little: bool) -> str:
    if severity == "critical":
        return "is full"
    return "is nearly full" if is_little else "is soon full"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
