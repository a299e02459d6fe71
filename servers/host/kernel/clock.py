"""The offset between this machine's clock and another's."""

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 5


@dataclass(frozen=True, kw_only=True)
class Ahead:
    seconds: float  # negative: this clock is behind
    within: float  # seconds that this may be off


def ahead_of(there: Callable[[], float], own: Callable[[], float] = time.time) -> Ahead:
    """Of the clock that `there` asks for its unix time in seconds. Raises what that raises.

    Cristian's rule: the answer is from the middle of asking, give or take half of how long it
    took; of several the quickest is the best.
    """
    return min((_once(there, own) for _ in range(ROUNDS)), key=lambda each: each.within)


def _once(there: Callable[[], float], own: Callable[[], float]) -> Ahead:
    asked, said, heard = own(), there(), own()
    return Ahead(seconds=(asked + heard) / 2 - said, within=abs(heard - asked) / 2)
