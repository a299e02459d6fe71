"""Progress of a start: phases, timeline, time left, and whether it has gone quiet."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import median

from servers.judge.logs.phases.progress import PHASES, PhaseProgress
from servers.judge.logs.phases.reader import by_engine, order

# Shorter than this a pause is never called quiet, however fast earlier runs were.
SHORTEST_QUIET = timedelta(minutes=2)
# A bar's pace is believed once so much of it is done.
_PERCENT_KNOWN = 5
# Phases that no line begins: the container's start does, or a measurement.
_FIRST = "starting"


@dataclass(frozen=True, kw_only=True)
class WeightsDownload:
    """Growth of the checkpoint's folder in the Hugging Face cache, as a box measured it."""

    began: datetime
    ended: datetime | None  # None: it still grows
    size: int  # bytes there, unfinished files included
    total: int | None  # bytes that it will be; None: not known
    rate: float | None  # bytes a second, of late


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """One phase of a start."""

    phase: str
    words: str
    began: datetime
    ended: datetime | None  # None: it goes on

    @property
    def took(self) -> timedelta | None:
        return self.ended - self.began if self.ended else None


@dataclass(frozen=True, kw_only=True)
class StartProgress:
    """Where a start is now."""

    phase: str
    words: str
    percent: int | None  # of the phase; None: nothing says
    detail: str  # "17 of 51", "12.4 GiB at 210 MiB/s"; "": nothing more is known
    left: timedelta | None  # until ready, by this bar's pace and earlier runs; None: not known
    promised: str  # what the profile's source says of a start; "" where earlier runs know better
    quiet: timedelta | None  # for so long nothing was heard, which is unusual; None: it is not

    @property
    def minutes_left(self) -> str:
        """ "about 5 min left"; "" where it is not known."""
        if self.left is None:
            return ""
        minutes = round(self.left.total_seconds() / 60)
        return f"about {minutes} min left" if minutes else "less than a minute left"

    @property
    def quiet_minutes(self) -> int:
        return int(self.quiet.total_seconds() // 60) if self.quiet else 0


def moment(at: str) -> datetime | None:
    """Docker's timestamp; None for one that carries no date and zone."""
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return found if found.tzinfo else None


def stretches(
    progress: PhaseProgress,
    *,
    started: datetime,
    ended: datetime | None,
    download: WeightsDownload | None = None,
) -> tuple[Stretch, ...]:
    """The phases from the container's start on; `ended` is when it was ready, or over.

    A download that a box measured stands as its own phase: the engine says that it loads.
    """
    begins: list[tuple[str, datetime]] = [(_FIRST, started)]
    for each in progress.moments:
        at = moment(each.at)
        if at is not None and each.phase not in (_FIRST, "ready"):
            begins.append((each.phase, at))
    if download is not None and not any(phase == "downloading" for phase, _at in begins):
        begins = _with_download(begins, download)
    # Two threads of Docker's stamp stdout and stderr.
    begins = [(phase, max(at, started)) for phase, at in begins]
    ends: list[datetime | None] = [max(at, begins[0][1]) for _phase, at in begins[1:]]
    return tuple(
        Stretch(phase=phase, words=PHASES[phase], began=at, ended=until)
        for (phase, at), until in zip(begins, [*ends, ended], strict=True)
    )


def _with_download(
    begins: list[tuple[str, datetime]], download: WeightsDownload
) -> list[tuple[str, datetime]]:
    """Loading that began before the weights were there was waiting for them."""
    before = [each for each in begins if each[0] in (_FIRST, "connecting")]
    waited = [at for phase, at in begins if phase == "loading"]
    after = [each for each in begins if each[0] not in (_FIRST, "connecting", "loading")]
    began = min([download.began, *waited])
    found = [*before, ("downloading", max(began, before[-1][1]))]
    if download.ended is not None:
        found.append(("loading", max(download.ended, *waited) if waited else download.ended))
    return found + after


def durations(found: Iterable[Stretch]) -> dict[str, float]:
    """Seconds of each phase that is over."""
    return {each.phase: each.took.total_seconds() for each in found if each.took is not None}


def usual(earlier: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Seconds that each phase usually takes: the median of earlier runs that had it.

    A phase that fewer than half of them had (a download, the first compilation) is left out.
    """
    phases = {phase for run in earlier for phase in run}
    found = {}
    for phase in PHASES:
        took = [run[phase] for run in earlier if phase in run]
        if phase in phases and 2 * len(took) >= len(earlier):
            found[phase] = median(took)
    return found


def estimate_time_left(
    now_in: Stretch,
    percent: int | None,
    usually: Mapping[str, float],
    *,
    engine: str,
    now: datetime,
) -> timedelta | None:
    """Time until ready; None where neither a bar nor earlier runs tell.

    The phase's own bar counts more than what it took before.
    """
    spent = max((now - now_in.began).total_seconds(), 0.0)
    ahead = order(engine)
    ahead = ahead[ahead.index(now_in.phase) + 1 :]
    later = [phase for phase in ahead if phase in usually]
    if percent is not None and percent >= _PERCENT_KNOWN:
        rest = spent * (100 - percent) / percent
    elif now_in.phase in usually:
        rest = usually[now_in.phase] - spent
    else:
        return None
    if not usually or rest < 0:
        # What follows is not known, or it takes longer than ever: no promise.
        return None
    return timedelta(seconds=rest + sum(usually[phase] for phase in later))


def quiet(
    now_in: Stretch,
    heard: datetime | None,
    usually: Mapping[str, float],
    *,
    engine: str,
    unified: bool,
    now: datetime,
) -> timedelta | None:
    """For how long nothing was heard, where that is unusual; None where it is not.

    Unusual is longer than the whole phase usually took; without earlier runs, longer than the
    engine's rules say. `heard` is the last line or progress of any kind.
    """
    silent = now - max(heard or now_in.began, now_in.began)
    rules = by_engine().get(engine)
    if now_in.phase in usually:
        limit = timedelta(seconds=usually[now_in.phase])
    elif rules is not None:
        after = rules.quiet_after_unified if unified else rules.quiet_after
        limit = timedelta(seconds=after.get(now_in.phase, after[_FIRST]))
    else:
        return None
    return silent if silent > max(limit, SHORTEST_QUIET) else None


def quote_promised_time(expected: Mapping[str, str]) -> str:
    """What a profile's source says of the time of a start, as it is written there; "" if nothing."""
    for name, text in expected.items():
        if re.search(r"\b(start|time to ready|ready)\b", name.lower()):
            return text
    return next((text for name, text in expected.items() if name.lower() == "load"), "")


def where(
    found: Sequence[Stretch],
    progress: PhaseProgress,
    *,
    download: WeightsDownload | None,
    heard: datetime | None,
    usually: Mapping[str, float],
    expected: Mapping[str, str],
    engine: str,
    unified: bool,
    now: datetime,
) -> StartProgress:
    """Where the start is that went through `found`."""
    now_in = found[-1]
    loads = now_in.phase == "downloading" and progress.phase != "downloading"
    if loads:
        percent, detail = _format_download(download)
    else:
        percent, detail = progress.percent, _format_count(progress)
    silent = quiet(now_in, heard, usually, engine=engine, unified=unified, now=now)
    return StartProgress(
        phase=now_in.phase,
        words=now_in.words,
        percent=percent,
        detail=detail,
        # A bar that stands still has no pace.
        left=None
        if silent
        else estimate_time_left(now_in, percent, usually, engine=engine, now=now),
        promised="" if usually else quote_promised_time(expected),
        quiet=silent,
    )


def _format_count(progress: PhaseProgress) -> str:
    """ "17 of 51", and which rank is behind where they differ."""
    bar = progress.bar
    text = f"{bar.done} of {bar.total}" if bar and bar.total else ""
    percents = {rank.percent for rank in progress.ranks}
    if progress.behind and progress.percent is None:
        return f"waits for {', '.join(progress.behind)}"
    if len(percents) > 1:
        slowest = min(progress.ranks, key=lambda rank: rank.percent)
        others = max(rank.percent for rank in progress.ranks)
        text = f"{text}, {slowest.name} is behind: others at {others} %".lstrip(", ")
    return text


def _format_download(download: WeightsDownload | None) -> tuple[int | None, str]:
    """Its percent, and "12.4 of 61.0 GiB, 210 MiB/s"."""
    if download is None:
        return None, ""
    there = f"{download.size / 2**30:.1f}"
    percent = None
    if download.total:
        there = f"{there} of {download.total / 2**30:.1f}"
        percent = min(100 * download.size // download.total, 99)
    rate = f", {download.rate / 2**20:.0f} MiB/s" if download.rate else ""
    return percent, f"{there} GiB{rate}"


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


def list_steps(
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
