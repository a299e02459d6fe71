"""OOM kills on the whole machine, carried by samples."""

import dataclasses
from collections import deque
from typing import Any

from servers.host.kernel.oom_log import OomKill
from servers.host.kernel.proc import Kernel
from servers.host.kernel.programs import Programs

_MOST = 16  # kills, and moves of the counter, that a sample tells; the newest


class OomKills:
    """Each sample tells all of the last ones again: a sample may be dropped."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._count: int | None = None
        self._moves: deque[dict[str, Any]] = deque(maxlen=_MOST)
        self._told: deque[dict[str, Any]] = deque(maxlen=_MOST)

    def add(self, kill: OomKill) -> None:
        """One of which the kernel's log tells."""
        self._told.append(dataclasses.asdict(kill))

    def look(self, t: float) -> None:
        """Read the kernel's counter. What it says first is of before anybody looked."""
        count, before = self._kernel.oom_kills(), self._count
        self._count = count
        if count is not None and before is not None and count > before:
            # Looked for anew each time: it happens seldom, and takes some 10 ms.
            largest = Programs(self._kernel).largest(besides=set())
            self._moves.append(
                {
                    "t": t,
                    "count": count - before,
                    "largest": [[each.name, each.own] for each in largest[:5]],
                }
            )

    def to_json(self) -> dict[str, Any]:
        """`moves` of the counter (t: unix seconds of the sample that saw it), and `killed`."""
        return {"moves": list(self._moves), "killed": list(self._told)}
