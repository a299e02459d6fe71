"""Successors of flags that an engine has dropped: what is written today for a name of an older version.

A list of flags says which names are gone since the one before it. What took their place is said
in successors.yaml, for every version that has the new name and no longer the old one, however it was
listed.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from servers.launch.tables import freeze, read_table


@dataclass(frozen=True, kw_only=True)
class Successor:
    """`write` are the names of today, "--new" or "--new=value"; of several any one may be meant.

    `says` is a sentence on what became of it where no name alone says so.
    """

    write: tuple[str, ...] = ()
    says: str = ""

    @property
    def only(self) -> str | None:
        """The one thing to write instead; None where that is for a person to decide."""
        return self.write[0] if len(self.write) == 1 else None


_TABLE = freeze(read_table(__file__))
SUCCESSORS: Mapping[str, Mapping[str, Successor]] = {
    engine: {name: Successor(**said) for name, said in dropped.items()}
    for engine, dropped in _TABLE["dropped"].items()
}
# What two dropped flags of llama.cpp say together.
_PAIRS: Mapping[frozenset[str], Successor] = {
    frozenset(said["flags"]): Successor(write=said["write"]) for said in _TABLE["together"]
}


def find_successor(
    engine: str, name: str, *, release: tuple[int, ...] | None, beside: Collection[str] = ()
) -> Successor | None:
    """What became of a flag of an older version; None: nothing is known of such a name.

    `release` is that of the engine, None where it is not known; `beside` are the other flags.
    """
    since = _TABLE["since"].get(engine)
    if release is not None and since is not None and release < since:
        return None
    for names, together in _PAIRS.items() if engine == "llamacpp" else ():
        if name in names and names <= {name, *beside}:
            return together
    return SUCCESSORS.get(engine, {}).get(name)


def find_partners(name: str, beside: Collection[str]) -> tuple[str, ...]:
    """The flags beside a dropped one that its successor says, too."""
    pairs = (names for names in _PAIRS if name in names and names <= {name, *beside})
    return tuple(sorted(each for names in pairs for each in names if each != name))


def find_synonym(engine: str, name: str) -> str | None:
    """This engine's name for what another engine, or a habit, calls otherwise; None: no such."""
    for own, others in _TABLE["synonyms"].get(engine, {}).items():
        if name in others and name != own:
            return str(own)
    return None
