"""The states and phases that a run went through, and how long each took."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from servers.judge.logs.phases import PHASES
from servers.judge.runs.start_progress import Stretch

STARTING = "starting"  # the state that has phases


@dataclass(frozen=True, kw_only=True)
class TimelineStep:
    state: str
    began: datetime | None  # None: not there yet
    ended: datetime | None  # None: there now, or not there yet
    is_now: bool = False
    failed_here: bool = False
    words: str = ""  # of the phase; "": the state's own
    usually: timedelta | None = None  # what the phase took in earlier runs

    @property
    def took(self) -> timedelta | None:
        return self.ended - self.began if self.began and self.ended else None


def steps(
    moments: Sequence[tuple[str, datetime | None]], *, ended_at: datetime | None, has_failed: bool
) -> tuple[TimelineStep, ...]:
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
            TimelineStep(
                state=state,
                began=began,
                ended=next(following, ended_at) if began else None,
                is_now=place == last and ended_at is None,
                failed_here=place == last and has_failed,
            )
        )
    return tuple(found)


def with_phases(
    found: Sequence[TimelineStep],
    stretches: Sequence[Stretch],
    usually: Mapping[str, float],
    order: Sequence[str],
) -> tuple[TimelineStep, ...]:
    """The steps, with the phases of the start instead of its one state.

    While it starts, the phases that earlier runs went through stand there without a time.
    """
    if len(stretches) < 2 and not usually:
        return tuple(found)
    whole = next((step for step in found if step.state == STARTING and step.began), None)
    if whole is None or not stretches:
        return tuple(found)
    inner = [
        replace(
            whole,
            words=each.words,
            began=each.began,
            ended=each.ended,
            is_now=whole.is_now and each is stretches[-1],
            failed_here=whole.failed_here and each is stretches[-1],
            usually=_span(usually.get(each.phase)),
        )
        for each in stretches
    ]
    if whole.is_now and stretches[-1].phase in order:
        rest = order[order.index(stretches[-1].phase) + 1 :]
        inner += [
            TimelineStep(
                state=STARTING,
                words=PHASES[phase],
                began=None,
                ended=None,
                usually=_span(usually[phase]),
            )
            for phase in rest
            if phase in usually
        ]
    place = list(found).index(whole)
    return (*found[:place], *inner, *found[place + 1 :])


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
