"""Since when something has been so, and whether for long enough to be told. Times in seconds."""

from collections import deque
from dataclasses import dataclass, field

# Samples come each second; after a longer pause nobody knows what was in between.
PAUSE = 15.0
# So many looks at least make a window.
_LEAST = 5


@dataclass(kw_only=True)
class _Run:
    first: float
    last: float  # when it was so
    seen: float  # when it was looked at
    is_on: bool = False


class Lasting:
    """Told once it has been so without a break for `enter`, until it has not been for `leave`."""

    def __init__(self, *, enter: float, leave: float) -> None:
        self._enter, self._leave = enter, leave
        self._runs: dict[str, _Run] = {}

    def find_start(self, key: str, t: float, is_so: bool | None) -> float | None:
        """Unix seconds since when; None: it is not told. `is_so` None: nobody knows just now."""
        run = self._runs.get(key)
        if is_so and (run is None or self._is_broken(run, t)):
            run = self._runs[key] = _Run(first=t, last=t, seen=t)
        if run is None:
            return None
        is_over = is_so is False and t - run.last >= self._leave
        if is_so:
            run.last = t
            run.is_on = run.is_on or t - run.first >= self._enter
        elif is_over or not run.is_on:
            del self._runs[key]
            return None
        run.seen = t
        return run.first if run.is_on else None

    def _is_broken(self, run: _Run, t: float) -> bool:
        # A clock that was set back makes a new beginning, too.
        return t < run.seen or (not run.is_on and t - run.seen > PAUSE)


@dataclass(kw_only=True)
class _Window:
    looks: deque[tuple[float, bool]] = field(default_factory=deque)
    so: int = 0
    since: float | None = None


class Often:
    """For what comes and goes within seconds: the part of the last `window` in which it was so."""

    def __init__(self, *, window: float, enter: float, leave: float) -> None:
        """`enter` and `leave` are parts of one."""
        self._window, self._enter, self._leave = window, enter, leave
        self._windows: dict[str, _Window] = {}

    def find_start(self, key: str, t: float, is_so: bool) -> float | None:
        """Unix seconds since when it has been so often; None: it has not."""
        window = self._windows.setdefault(key, _Window())
        looks = window.looks
        if looks and not 0 <= t - looks[-1][0] <= PAUSE:
            looks.clear()
            window.so = 0
        looks.append((t, is_so))
        window.so += is_so
        while looks[0][0] <= t - self._window:
            window.so -= looks.popleft()[1]
        if len(looks) >= _LEAST and t - looks[0][0] >= 0.8 * self._window:
            part = window.so / len(looks)
            if window.since is None and part >= self._enter:
                window.since = next(at for at, was_so in looks if was_so)
            elif window.since is not None and part < self._leave:
                window.since = None
        return window.since

    def current(self, key: str) -> float | None:
        """What since() said last; for moments that tell nothing."""
        window = self._windows.get(key)
        return window.since if window else None

    def part(self, key: str) -> float:
        """Of one; 0 before anything was seen."""
        window = self._windows.get(key)
        return window.so / len(window.looks) if window and window.looks else 0.0
