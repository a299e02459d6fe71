"""The variables that a paste sets itself, and words with these put in."""

import fnmatch
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from servers.launch import numbers
from servers.launch.commandline import tokens
from servers.launch.commandline.shell import Lexer
from servers.launch.commandline.tokens import (
    ArrayAssignment,
    Piece,
    ShellError,
    Substitution,
    Text,
    Variable,
    Word,
)

# They differ from box to box and are always set: never a blank that a person must fill.
ALWAYS_SET = ("HOME", "PWD", "USER", "cd", "CD")
_LONG_DASHES = "–—―‒"
_HYPHEN_SIGNS = "‐‑−"
_HYPHENS = str.maketrans(dict.fromkeys(_HYPHEN_SIGNS, "-"))
# Options of several letters that have one dash: Docker's switches together, llama.cpp's.
_SINGLE_DASH = frozenset(
    ["it", "ti", "itd", "dit", "ngl", "fa", "hf", "hff", "hfr", "ctk", "ctv", "np", "ub", "md"]
)
_LONGEST_VALUE = 20_000  # characters; A=$A$A doubles it a line
_CHANGES = ("#", "##", "%", "%%", "/", "//", ",,", "^^")
WORKING_DIRECTORY = ("$(pwd)", "`pwd`")
_WHOLE = r"\$\{[^{}]*\}|<[^<>\n]*>"


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One word as a program would get it."""

    text: str
    offset: int
    unresolved: tuple[str, ...] = ()  # variables that stay in the text
    # A variable without a value and nothing else, unquoted or $@: it may be no word, or many.
    is_open: bool = False


@dataclass(frozen=True, kw_only=True)
class Value:
    text: str
    unresolved: tuple[str, ...] = ()


class _Expansion:
    """Words under construction while pieces are put in one after the other."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.names: list[str] = []
        self._open: str | None = None

    def add(self, text: str) -> None:
        tokens.spend_write(len(text))
        self._open = (self._open or "") + text

    def close(self) -> None:
        if self._open is not None:
            self.words.append(self._open)
        self._open = None

    def put(self, value: Value, *, quoted: bool) -> None:
        if quoted:
            self.add(value.text)
        else:
            self.split(value)

    def split(self, value: Value) -> None:
        """An unquoted value falls into words at its blanks, as in a shell.

        What stands for a text that nobody knows yet is one word: $(command), ${NAME:?why}, <name>.
        """
        tokens.spend_step(1 + len(value.unresolved))
        commands = [name for name in value.unresolved if name.startswith(("$(", "`"))]
        whole = "|".join([*map(re.escape, commands), _WHOLE])
        for number, part in enumerate(re.split(f"({whole})", value.text)):
            if number % 2:
                self.add(part)
            else:
                self._split_plain(part)

    def _split_plain(self, text: str) -> None:
        parts = text.split()
        if not parts:
            if text:
                self.close()
            return
        if text[0].isspace():
            self.close()
        for part in parts[:-1]:
            self.add(part)
            self.close()
        self.add(parts[-1])
        if text[-1].isspace():
            self.close()


@dataclass
class Scope:
    """What is set at one place of a script."""

    values: dict[str, Value] = field(default_factory=dict)
    arrays: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    exported: dict[str, None] = field(default_factory=dict)  # names, in order
    exports_all: bool = False
    uncertain: set[str] = field(default_factory=set)  # set where it depends on a condition

    def copy(self) -> "Scope":
        tokens.spend_step(1 + len(self.values) // 8)
        return Scope(
            values=dict(self.values),
            arrays=dict(self.arrays),
            exported=dict(self.exported),
            exports_all=self.exports_all,
            uncertain=set(self.uncertain),
        )

    def restore(self, saved: "Scope") -> None:
        """Be again as `saved` was when it was copied."""
        self.values, self.arrays = saved.values, saved.arrays
        self.exported, self.exports_all = saved.exported, saved.exports_all
        self.uncertain = saved.uncertain

    def set(self, name: str, value: Value, *, adds: bool = False) -> None:
        if adds and (old := self.values.get(name)) is not None:
            names = (*old.unresolved, *value.unresolved)
            value = Value(text=old.text + value.text, unresolved=names)
        self.values[name] = value
        self.arrays.pop(name, None)
        if self.exports_all:
            self.export(name)

    def set_array(self, assignment: ArrayAssignment) -> None:
        items = tuple(
            Value(text=argument.text, unresolved=argument.unresolved)
            for argument in self.arguments(assignment.words)
        )
        old = self.arrays.get(assignment.name, ()) if assignment.adds else ()
        self.arrays[assignment.name] = old + items
        self.values.pop(assignment.name, None)

    def forget(self, name: str) -> None:
        """The value depends on what happens while the script runs."""
        self.values.pop(name, None)
        self.arrays.pop(name, None)
        self.uncertain.add(name)

    def export(self, name: str) -> None:
        self.exported.setdefault(name)

    def environment(self) -> dict[str, Value]:
        """What a program started now would get from this paste."""
        tokens.spend_step(1 + len(self.exported))
        return {name: self.values[name] for name in self.exported if name in self.values}

    def arguments(self, words: Iterable[Word]) -> list[Argument]:
        """Words with all known variables put in. Raises ShellError."""
        found: list[Argument] = []
        for word in words:
            expansion = _Expansion()
            for piece in word.pieces:
                if isinstance(piece, Variable) and piece.index and piece.name in self.uncertain:
                    reason = f"what {piece.raw} holds depends on conditions; write its words here."
                    raise ShellError(reason, word.offset)
                self._put(piece, expansion)
            expansion.close()
            names = tuple(dict.fromkeys(expansion.names))
            tokens.spend_step(len(names) * len(expansion.words))
            is_plain = bool(word.pieces) and _is_unquoted(word.pieces[0])
            is_open = bool(names) and _is_one_variable(word)
            found += [
                Argument(
                    text=_plain_dashes(text) if is_plain else text,
                    offset=word.offset,
                    unresolved=tuple(name for name in names if name in text),
                    is_open=is_open,
                )
                for text in expansion.words
            ]
        return found

    def value(self, pieces: Iterable[Piece]) -> Value:
        """The text of an assignment's right side: never split into words."""
        expansion = _Expansion()
        expansion.add("")
        for piece in pieces:
            if isinstance(piece, Variable):
                piece = Variable(
                    raw=piece.raw,
                    name=piece.name,
                    index=piece.index,
                    operator=piece.operator,
                    argument=piece.argument,
                    quoted=True,
                )
            self._put(piece, expansion)
        expansion.close()
        return Value(
            text=" ".join(expansion.words), unresolved=tuple(dict.fromkeys(expansion.names))
        )

    def interpolate(self, text: str) -> Value:
        """A compose file's text: $$ is a dollar sign, everything else as in double quotes."""
        if "$" not in text:
            return Value(text=text)
        pieces: list[Piece] = []
        for number, part in enumerate(text.split("$$")):
            if number:
                pieces.append(Text(text="$", quoted=True))
            pieces += Lexer(part).interpolation()
        return self.value(pieces)

    def _put(self, piece: Piece, expansion: _Expansion) -> None:
        tokens.spend_step(1 + len(expansion.names) // 64)
        if isinstance(piece, Text):
            expansion.add(piece.text)
        elif isinstance(piece, Substitution):
            expansion.add(piece.raw)
            if piece.raw not in WORKING_DIRECTORY:
                expansion.names.append(piece.raw)
        elif piece.index in ("@", "*") and piece.name in self.arrays and not piece.operator:
            self._put_array(piece, expansion)
        else:
            self._put_variable(piece, expansion)

    def _put_array(self, variable: Variable, expansion: _Expansion) -> None:
        for number, item in enumerate(self.arrays[variable.name]):
            tokens.spend_step()
            if number:
                expansion.close()
            expansion.names += item.unresolved
            expansion.put(item, quoted=variable.quoted)

    def _put_variable(self, variable: Variable, expansion: _Expansion) -> None:
        value = self._find(variable)
        operator = variable.operator
        if operator in (":-", "-", ":=", "="):
            if value is None or (not value.text and operator[0] == ":"):
                value = self.value(variable.argument)
                if operator[-1] == "=":
                    self.set(variable.name, value)
        elif operator in (":+", "+") and value is not None:
            is_set = value.text or operator == "+"
            value = self.value(variable.argument) if is_set else Value(text="")
        elif operator in _CHANGES and value is not None:
            changed = _apply_operator(value.text, operator, self.value(variable.argument).text)
            value = Value(text=changed, unresolved=value.unresolved)
        elif operator and operator[-1] != "?":
            value = None
        if value is not None and len(value.text) > _LONGEST_VALUE:
            raise ShellError(f"what {variable.raw} holds is too long.", 0, is_certain=True)
        if value is None:
            expansion.add(variable.raw)
            if variable.name not in ALWAYS_SET:
                expansion.names.append(variable.name)
            return
        expansion.names += value.unresolved
        expansion.put(value, quoted=variable.quoted)

    def _find(self, variable: Variable) -> Value | None:
        if not variable.index:
            items = self.arrays.get(variable.name)
            return items[0] if items else self.values.get(variable.name)
        items = self.arrays.get(variable.name, ())
        index = numbers.whole(variable.index)
        return None if index is None or index >= len(items) else items[index]


def _is_unquoted(piece: Piece) -> bool:
    return isinstance(piece, Text) and not piece.quoted


def _plain_dashes(word: str) -> str:
    """An option whose dashes a word processor made into others: –p, —gpus, ‑‑model."""
    word = word.translate(_HYPHENS) if word[:1] in _HYPHEN_SIGNS + _LONG_DASHES else word
    if word[:1] not in tuple(_LONG_DASHES):
        return word
    name = word.lstrip(_LONG_DASHES + "-")
    return ("-" if len(name) == 1 or name in _SINGLE_DASH else "--") + name


def _is_one_variable(word: Word) -> bool:
    pieces = [piece for piece in word.pieces if piece != Text(text="", quoted=True)]
    if len(pieces) != 1:
        return False
    piece = pieces[0]
    if isinstance(piece, Variable):
        return not piece.quoted or piece.index == "@" or piece.name == "@"
    return isinstance(piece, Substitution)


def _apply_operator(text: str, operator: str, argument: str) -> str:
    """What a shell makes of a value with ${name#…}, ${name%…}, ${name/…/…}, ${name,,}, ${name^^}."""
    if operator in (",,", "^^"):
        return text.lower() if operator == ",," else text.upper()
    if operator in ("/", "//"):
        old, _, new = argument.partition("/")
        tokens.spend_write(text.count(old) * len(new))
        return text.replace(old, new, -1 if operator == "//" else 1)
    return _trim_pattern(text, operator, argument)


def _trim_pattern(text: str, operator: str, pattern: str) -> str:
    """${name#pattern} and its kin: # from the front, % from the back, doubled for the longest."""
    tokens.spend_step(len(text) * len(text) * (1 + pattern.count("*")) // 256)
    cuts = range(len(text) + 1)
    from_front = operator[0] == "#"
    is_longest = len(operator) == 2
    for cut in cuts if from_front != is_longest else reversed(cuts):
        taken, left = (text[:cut], text[cut:]) if from_front else (text[cut:], text[:cut])
        if fnmatch.fnmatchcase(taken, pattern):
            return left
    return text
