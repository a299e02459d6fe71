"""Ways from the hub to the engines of each box, and why there is none."""

import logging
import time
from collections.abc import Mapping

from django.conf import settings

from servers.host.http.wire import Way
from servers.models import Box, BoxLink
from servers.models.links import is_this_box
from servers.models.people.key import SecretError

log = logging.getLogger(__name__)

# Seconds for which the links are remembered: a revoked box is to be cut within 5.
REMEMBERED = 2.0

_known: dict[int, Way] = {}  # by box
_until = float("-inf")


def has_way(box: Box) -> bool:
    """Whether engines on it can be asked from here, if they and the box are up."""
    return is_this_box(box) or (settings.WIRE == "hub" and box.pk in _read_ways())


def find_way(box: Box) -> Way | None:
    """None: straight. Only for a box that has_way()."""
    return None if is_this_box(box) else _read_ways().get(box.pk)


def explain_unreachable(box: Box) -> str:
    """Why nobody can ask its engines from here now, in a sentence; "" where one can."""
    if is_this_box(box):
        return ""
    if settings.WIRE != "hub":
        return f"It runs on {box}: ask the inferdash of that box."
    if not has_way(box):
        return f"It runs on {box}, which has no link to this hub."
    if box.is_silent:
        return f"It runs on {box}, which is away. Its engines go on; ask again when it is back."
    return ""


def list_reachable() -> list[str]:
    """The names of the boxes whose engines can be asked from here, this one first."""
    if settings.WIRE != "hub":
        return [settings.BOX]
    far = Box.objects.filter(pk__in=_read_ways()).exclude(slug=settings.BOX)
    return [settings.BOX, *far.values_list("slug", flat=True)]


def forget() -> None:
    """What is remembered of the links."""
    global _until
    _until = float("-inf")


def _read_ways() -> Mapping[int, Way]:
    """All in one query, remembered for a moment: whole lists of runs ask for theirs."""
    global _known, _until
    if time.monotonic() >= _until:
        links = BoxLink.objects.select_let_in().exclude(box=None)
        _known = {box: way for link in links if (box := link.box_id) and (way := _make_way(link))}
        _until = time.monotonic() + REMEMBERED
    return _known


def _make_way(link: BoxLink) -> Way | None:
    try:
        return Way(port=link.port or 0, secret=link.reveal_relay_secret())
    except SecretError as error:
        log.warning("The box %s cannot be reached: %s", link, error)
        return None
