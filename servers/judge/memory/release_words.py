"""Sentences on the release of GPU memory."""

from datetime import timedelta

from servers.judge.memory.pools import GIB
from servers.judge.memory.release import Release, UnreleasedHolder
from servers.judge.messages import say

_AT_ONCE = 2.0  # seconds: a sample a second is all that was seen of it
_TELLING = GIB // 10
_LOOKED_AT = 60.0  # seconds; whoever looks does so every second


def sentence(release: Release, *, now: float) -> str:
    """One or two sentences; "" where there is nothing to say, as for an engine without a GPU."""
    match release.outcome:
        case "releasing" if release.to_come >= _TELLING:
            if now - release.mark[0] > _LOOKED_AT:
                return say("memory.release-not-watched", size=release.to_come).text
            holders = f" {_who(release.holders, now)}." if release.holders else ""
            return say("memory.releasing", size=release.to_come, holders=holders).text
        case "back":
            return _back(release)
        case "held":
            holders = _who(release.holders, now)
            return say("memory.release-held", size=release.to_come, holders=holders).text
        case "shm":
            paths = ", ".join(each.path for each in release.holders)
            return say("memory.release-shm", size=release.to_come, paths=paths).text
        case "missing":
            return say("memory.release-missing", size=release.to_come).text
        case "unsure":
            return say("memory.release-unknown", doubt=release.doubt).text
    return ""


def short(release: Release) -> str:
    """A few words for a table."""
    match release.outcome:
        case "releasing" if release.to_come >= _TELLING:
            return f"{_gib(release.to_come)} to come"
        case "back" if release.released is None:
            return "back" if release.was_doubted else ""
        case "back" if (release.released or 0) >= _TELLING:
            return f"{_gib(release.released or 0)} back {_took(release.seconds)}"
        case "held" | "shm" | "missing":
            return f"{_gib(release.to_come)} not back"
        case "unsure":
            return "not known"
    return ""


def _back(release: Release) -> str:
    if release.released is None:
        return "" if release.held is None else say("memory.released-all").text
    if release.released < _TELLING:
        return ""
    held = f" Until then {_names(release.holders)} held them." if release.holders else ""
    took = _took(release.seconds)
    return say("memory.released", size=release.released, took=took, holders=held).text


def _took(seconds: float | None) -> str:
    if seconds is None or seconds < _AT_ONCE:
        return "at once"
    return f"in {_span(seconds)}"


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    hours = timedelta(seconds=seconds) / timedelta(hours=1)
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} d"


def _who(holders: tuple[UnreleasedHolder, ...], now: float) -> str:
    first, *rest = holders
    if first.path:
        return f"They lie in {first.path}"
    said = f"Process {first.pid}"
    about = [first.name] if first.name else []
    if first.since is not None:
        about.append(f"{_span(max(0.0, now - first.since))} old")
    if first.container:
        about.append(f"of container {first.container[:12]}")
    said += f" ({', '.join(about)})" if about else ""
    said += f" and {len(rest)} more" if rest else ""
    verb = "hold" if rest else "holds"
    sizes = [each.size for each in holders if each.size is not None]
    amount = f" {_gib(sum(sizes))}" if sizes else " some of it"
    return f"{said} still {verb}{amount}"


def _names(holders: tuple[UnreleasedHolder, ...]) -> str:
    first, *rest = holders
    if first.path:
        return first.path
    said = f"process {first.pid}" + (f" ({first.name})" if first.name else "")
    return said + (f" and {len(rest)} more" if rest else "")


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"
