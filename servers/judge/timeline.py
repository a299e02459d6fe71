"""The states that a run went through, and how long each took."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, kw_only=True)
class Step:
    state: str
    began: datetime | None  # None: not there yet
    ended: datetime | None  # None: there now, or not there yet
    is_now: bool = False
    failed_here: bool = False

    @property
    def took(self) -> timedelta | None:
        return self.ended - self.began if self.began and self.ended else None


def steps(
    moments: Sequence[tuple[str, datetime | None]], *, ended_at: datetime | None, has_failed: bool
) -> tuple[Step, ...]:
    """One step for each state, in the order given; `moments` says when each began.

    A state that was passed over (no pull for a local image) is left out, one that may still
    come is kept without a time. The last one reached is where the run is now, or ended.
    """
    reached = [place for place, (_state, began) in enumerate(moments) if began is not None]
    last = reached[-1] if reached else -1
    found = []
    for place, (state, began) in enumerate(moments):
        if began is None and (place < last or ended_at is not None):
            continue
        following = (later for _state, later in moments[place + 1 :] if later is not None)
        found.append(
            Step(
                state=state,
                began=began,
                ended=next(following, ended_at) if began else None,
                is_now=place == last and ended_at is None,
                failed_here=place == last and has_failed,
            )
        )
    return tuple(found)
