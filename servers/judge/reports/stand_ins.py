"""Stand-ins for what a report must not hold, numbered in the order in which they are wanted."""

from collections import Counter


class StandIns:
    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._counts = Counter[str]()

    def get(self, kind: str, name: str) -> str:
        """ "user1": the same for the same name, whenever it is wanted."""
        return f"{kind}{self.number(kind, name)}"

    def number(self, kind: str, name: str) -> int:
        """From 1; the same for the same name."""
        if (kind, name) not in self._given:
            self._counts[kind] += 1
            self._given[kind, name] = str(self._counts[kind])
        return int(self._given[kind, name])
