"""Import notes: what a draft says of the differences between a paste and the profile."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from servers.launch.tables import read_table

type NoteKind = Literal["assumed", "ignored", "unresolved", "trusts"]

_NO_PLACE = "a profile has no place for {them}."
_TABLE = read_table(__file__)
# By the option's name without dashes, docker's or compose's.
_WHY: dict[str, str] = {
    option: said["why"] for said in _TABLE["left_out"] for option in said["options"]
}
_BACKGROUND = _WHY["detach"]
_SHORT = {"d": "detach", "i": "interactive", "t": "tty", "m": "memory", "h": "hostname"}


_SIGNED = re.compile(r"\$\{?(\w+)")
_BARE = re.compile(r"(?<![\w.])\w+(?![\w.])")


@dataclass(frozen=True, kw_only=True)
class ImportNote:
    kind: NoteKind
    says: str


class NoteList:
    """Notes in the order of their first word, with what has the same reason in one of them."""

    def __init__(self) -> None:
        self._notes: dict[tuple[NoteKind, str], list[str]] = {}

    def add(self, kind: NoteKind, says: str) -> None:
        self._notes.setdefault((kind, says), [])

    def say(self, id: str, **known: Any) -> None:
        """The note of this id in import_notes.yaml."""
        said = _TABLE["notes"][id]
        self.add(said["kind"], said["one"].format(**known))

    def gather(self, id: str, subject: str, **known: Any) -> None:
        """The same of a note that names what has the same reason."""
        said = _TABLE["notes"][id]
        one, several = (said.get(each, "").format(**known) for each in ("one", "several"))
        self.group(said["kind"], subject, one, several)

    def group(self, kind: NoteKind, subject: str, one: str, several: str = "") -> None:
        """“subject one”; of more than one subject “first, second several”."""
        subjects = self._notes.setdefault((kind, f"{one}\0{several}"), [])
        if subject not in subjects:
            subjects.append(subject)

    def find_unnamed(self, names: Iterable[str]) -> list[str]:
        """Variables, and $(commands), that no note is about yet."""
        texts = ["\n".join(note.says for note in self.build())]
        signed = set(_SIGNED.findall(texts[0]))
        words = signed | set(_BARE.findall(texts[0]))
        found: list[str] = []
        for name in names:
            if name.startswith(("$", "`")):
                if not any(name in text for text in texts):
                    found.append(name)
                    # A note about it names what is inside it, too.
                    texts.append(name)
                    signed.update(_SIGNED.findall(name))
                    words.update(signed, _BARE.findall(name))
            # The first argument of a script is $1, and no other 1.
            elif name not in (signed if name.isdigit() else words):
                found.append(name)
        return found

    def build(self) -> tuple[ImportNote, ...]:
        return tuple(
            ImportNote(kind=kind, says=_write(text, subjects) if subjects else text)
            for (kind, text), subjects in self._notes.items()
        )


def _write(text: str, subjects: list[str]) -> str:
    one, _zero, several = text.partition("\0")
    return ", ".join(subjects) + (several if several and len(subjects) > 1 else one)


def note_ignored(notes: NoteList, options: Iterable[str], *, adds_init: bool) -> None:
    """Options that the profile leaves out, with the reason, and that each container has --init."""
    init = ", with an init process (--init)" if adds_init else ""
    for option in options:
        why = _find_reason(option)
        if why is _BACKGROUND:
            adds_init = False
        one, several = (f": {why.format(them=them, init=init)}" for them in ("it", "them"))
        notes.group("ignored", option, one, several)
    if adds_init:
        notes.say("init")


def _find_reason(option: str) -> str:
    word = option.split()[0].partition("=")[0].rstrip(":")
    if word.endswith(".sh"):
        return "what this script adds to the command is not in the paste."
    name = word.lstrip("-")
    if not word.startswith("--") and word.startswith("-"):
        names = {_SHORT.get(letter, letter) for letter in name}
        return _BACKGROUND if names <= {"detach", "interactive", "tty"} else _NO_PLACE
    return _WHY.get(name, _NO_PLACE)
