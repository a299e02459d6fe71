"""The parts of a page as one socket has sent them: what is the same is not sent again."""

import re

PARTS = re.compile(r'(?=<hx-partial hx-target="#)')
TARGET = re.compile(r'<hx-partial hx-target="#([^"]+)"')
IDS = re.compile(r' id="([^"]+)"')


class SentParts:
    """By target: what was sent last, and the ids in it.

    A part that lies in another, or around one, is as old as the younger of them: both are forgotten when the other comes.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, frozenset[str]]] = {}

    def forget(self) -> None:
        self._last.clear()

    def keep_new(self, html: str) -> str:
        """Of these parts those that differ from what their targets were sent last."""
        return "".join(part for part in PARTS.split(html) if self._is_new(part))

    def _is_new(self, part: str) -> bool:
        named = TARGET.search(part)
        if not named:
            return bool(part.strip())
        target, said = named[1], hash(part)
        if target in self._last and self._last[target][0] == said:
            return False
        ids = frozenset(IDS.findall(part))
        around = [each for each, (_, inner) in self._last.items() if target in inner or each in ids]
        for each in around:
            del self._last[each]
        self._last[target] = said, ids
        return True
