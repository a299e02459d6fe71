"""The return of an external engine's GPU memory after its end."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servers.judge.memory.pools import GIB

# Of what they held: a driver keeps some pages, and others allocate meanwhile.
_SLACK = 0.1
# Bytes below which nobody can tell one from the other.
_LEAST = GIB // 4


@dataclass(frozen=True, kw_only=True)
class Members:
    """Whose memory it is: a container's, or that of these processes."""

    container: str = ""
    pids: tuple[int, ...] = ()


# By GPU: bytes in use there by all, and by them; None where the driver does not tell.
type Held = dict[int, tuple[int | None, int | None]]


def held_before(sample: Mapping[str, Any] | None, members: Members) -> Held:
    """What they hold of each GPU; nothing of GPUs that they are not on."""
    known = sample or {}
    pids = _pids(known, members)
    found: Held = {}
    for card in known.get("gpus") or []:
        mine = [each.get("used") for each in card.get("processes") or [] if each["pid"] in pids]
        if mine:
            own = None if None in mine else sum(mine)
            found[card["index"]] = (card.get("used"), own)
    return found


def describe_missing(before: Held, sample: Mapping[str, Any], members: Members) -> str:
    """What is not back yet, in words; "" when all is.

    Rule: nobody of them is on the GPU any more, and as much less of it is in use as they held,
    but for a tenth; where the driver tells no figures the first half alone.
    """
    pids = _pids(sample, members)
    for card in sample.get("gpus") or []:
        index = card["index"]
        if index not in before:
            continue
        if any(each["pid"] in pids for each in card.get("processes") or []):
            return f"the memory of GPU {index}"
        used, own = before[index]
        now = card.get("used")
        if used is None or own is None or now is None:
            continue
        left = own - (used - now)
        if left > max(_LEAST, own * _SLACK):
            return f"{left / GIB:.1f} GiB of GPU {index}"
    return ""


def _pids(sample: Mapping[str, Any], members: Members) -> frozenset[int]:
    if not members.container:
        return frozenset(members.pids)
    return frozenset(
        each["pid"]
        for each in sample.get("processes") or []
        if each.get("container") == members.container
    )
