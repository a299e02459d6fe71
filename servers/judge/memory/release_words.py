"""Sentences on the release of GPU memory."""

from collections.abc import Iterator
from datetime import timedelta

from servers.judge.memory.pools import GIB
from servers.judge.memory.release import Release, UnreleasedHolder
from servers.judge.messages import Sentence, say

_AT_ONCE = 2.0  # seconds: a sample a second is all that was seen of it
_TELLING = GIB // 10
_LOOKED_AT = 60.0  # seconds; whoever looks does so every second


def sentence(release: Release, *, now: float) -> str:
    """One or two sentences; "" where there is nothing to say, as for an engine without a GPU."""
    return " ".join(each.text for each in list_sentences(release, now=now))


def find_code(release: Release, *, now: float) -> str:
    """The id of the first message of sentence(); "" where there is none."""
    return next((each.code for each in list_sentences(release, now=now)), "")


def list_sentences(release: Release, *, now: float) -> Iterator[Sentence]:
    match release.outcome:
        case "releasing" if release.to_come >= _TELLING:
            if now - release.mark[0] > _LOOKED_AT:
                yield say("memory.release-not-watched", size=release.to_come)
                return
            yield say("memory.releasing", size=release.to_come)
            yield from _holders(release.holders, now)
        case "back":
            yield from _back(release)
        case "held":
            yield say("memory.release-held", size=release.to_come)
            yield from _holders(release.holders, now)
        case "shm":
            paths = ", ".join(each.path for each in release.holders)
            yield say("memory.release-shm", size=release.to_come, paths=paths)
        case "missing":
            yield say("memory.release-missing", size=release.to_come)
        case "unsure":
            yield say("memory.release-unknown", doubt=release.doubt)


def short(release: Release) -> str:
    """A few words for a table; "" where there is nothing to say."""
    said = _shorten(release)
    return said.text if said else ""


def _shorten(release: Release) -> Sentence | None:
    match release.outcome:
        case "releasing" if release.to_come >= _TELLING:
            return say("memory.release-short-coming", size=release.to_come)
        case "back" if release.released is None:
            return say("memory.release-short-back") if release.was_doubted else None
        case "back" if (size := release.released or 0) >= _TELLING:
            if _is_at_once(release):
                return say("memory.release-short-back-at-once", size=size)
            return say("memory.release-short-back-in", size=size, span=_span(release.seconds or 0))
        case "held" | "shm" | "missing":
            return say("memory.release-short-not-back", size=release.to_come)
        case "unsure":
            return say("memory.release-short-unknown")
    return None


def _back(release: Release) -> Iterator[Sentence]:
    size = release.released
    if size is None and release.held is not None:
        yield say("memory.released-all")
    if size is None or size < _TELLING:
        return
    if _is_at_once(release):
        yield say("memory.released-at-once", size=size)
    else:
        yield say("memory.released", size=size, span=_span(release.seconds or 0))
    if not release.holders:
        return
    first, *rest = release.holders
    process = f"{first.pid} ({first.name})" if first.name else str(first.pid)
    if first.path:
        yield say("memory.release-lay-before", path=first.path)
    elif rest:
        yield say("memory.release-held-before-several", process=process, more=len(rest))
    else:
        yield say("memory.release-held-before", process=process)


def _is_at_once(release: Release) -> bool:
    return release.seconds is None or release.seconds < _AT_ONCE


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    hours = timedelta(seconds=seconds) / timedelta(hours=1)
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} d"


def _holders(holders: tuple[UnreleasedHolder, ...], now: float) -> Iterator[Sentence]:
    if not holders:
        return
    first, *rest = holders
    if first.path:
        yield say("memory.release-lies", path=first.path)
        return
    process, more = _describe_holder(first, now), len(rest)
    sizes = [each.size for each in holders if each.size is not None]
    if sizes and rest:
        yield say("memory.release-holders", process=process, more=more, size=sum(sizes))
    elif sizes:
        yield say("memory.release-holder", process=process, size=sum(sizes))
    elif rest:
        yield say("memory.release-holders-unknown", process=process, more=more)
    else:
        yield say("memory.release-holder-unknown", process=process)


def _describe_holder(holder: UnreleasedHolder, now: float) -> str:
    """ "4711 (VLLM::Worker, 5 min old, of container 0123456789ab)"."""
    about = [holder.name] if holder.name else []
    if holder.since is not None:
        age = _span(max(0.0, now - holder.since))
        about.append(say("memory.release-holder-age", age=age).text)
    if holder.container:
        container = holder.container[:12]
        about.append(say("memory.release-holder-container", container=container).text)
    return f"{holder.pid} ({', '.join(about)})" if about else str(holder.pid)
