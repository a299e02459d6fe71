"""Matches of the catalogue's entries: which line an entry knows, and what its groups say."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from servers.judge.logs import exceptions, matching
from servers.judge.logs.evidence import EvidenceLine, EvidenceLog
from servers.judge.logs.failure_catalog import Failure
from servers.judge.logs.wrapping import cut

GIB = 2**30
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{1,9})?")


@dataclass(frozen=True, kw_only=True)
class Hit:
    failure: Failure
    line: EvidenceLine
    groups: Mapping[str, str]
    log: EvidenceLog


def match_entry(
    failure: Failure, line: EvidenceLine, log: EvidenceLog, unheld: int | None
) -> Hit | None:
    """None where the entry does not know this line.

    `unheld`: bytes of a unified pool that nobody held when it started; None: not known.
    """
    if line.is_quiet and not failure.any_level:
        return None
    if failure.raised and not exceptions.names_one(line):
        return None
    for pattern in failure.match:
        match = pattern.search(line.searched, line.lower)
        if match is None or (failure.unless and failure.unless.search(line.searched)):
            continue
        if failure.room and not matching.has_room(*match.group(*failure.room)):
            continue
        if failure.frame and not any(map(failure.frame.search, exceptions.list_frames(line))):
            continue
        place = failure.place and failure.place.search(exceptions.explain_place(line))
        if failure.place and not place:
            continue
        if _lacks(failure, line, log):
            return None
        told = _read_seen(failure, line, log) | match.groupdict()
        told |= place.groupdict() if place else {}
        groups = {name: cut(said) for name, said in told.items() if said}
        return Hit(failure=failure, line=line, groups=_more(groups, unheld), log=log)
    return None


def _lacks(failure: Failure, line: EvidenceLine, log: EvidenceLog) -> bool:
    """Whether what it wants of the lines before is not there."""
    if not (failure.seen or failure.unseen or failure.twice or failure.seen_with):
        return False
    before = log.texts[: line.position]
    for part, need in failure.seen_with:
        if part.search(line.text) and not any(map(need.search, before)):
            return True
    if failure.unseen and any(map(failure.unseen.search, before)):
        return True
    if failure.twice and sum(1 for text in before if failure.twice.search(text)) < 2:
        return True
    return not all(any(map(each.search, before)) for each in failure.seen)


def _read_seen(failure: Failure, line: EvidenceLine, log: EvidenceLog) -> dict[str, str]:
    """The groups of the earlier lines that it wants, of the last such line."""
    before = log.texts[: line.position]
    told: dict[str, str] = {}
    for each in failure.seen:
        found = (match for text in reversed(before) if (match := each.search(text)))
        told |= next(found).groupdict() if each.groups else {}
    return told


def _more(groups: dict[str, str], unheld: int | None) -> dict[str, str]:
    """What follows from what the line says."""
    free, total = (_NUMBER.fullmatch(groups.get(name, "")) for name in ("free", "total"))
    if free and total and float(total[0]):
        share = float(free[0]) / float(total[0]) - 0.01
        if 0.05 <= share < 1:
            groups["fits"] = f"{int(share * 100) / 100:.2f}"
    if unheld is not None:
        groups["unheld"] = f"{unheld / GIB:.1f}"
    return groups
