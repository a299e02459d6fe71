"""A budget of steps for reading one paste, the same on every machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from servers.launch.commandline.command import PasteError

# All the guides that the tests know, pasted as one, take a sixth of the steps.
STEPS = 400_000
WRITTEN = 1_000_000  # characters that variables are replaced by, in all words together

COMMAND = 200  # steps, for all that is made of one: a paste has some, and not thousands


class TooMuchError(Exception):
    """The paste is made of what grows while it is read: no launch command is."""


@dataclass
class _BudgetLeft:
    steps: int
    written: int


_left: ContextVar[_BudgetLeft | None] = ContextVar("what a paste may still do", default=None)


@contextmanager
def budget(*, steps: int = STEPS, written: int = WRITTEN) -> Iterator[None]:
    """What is read within has so much to spend; what is read elsewhere is not counted."""
    token = _left.set(_BudgetLeft(steps, written))
    try:
        yield
    finally:
        _left.reset(token)


@contextmanager
def limit_paste() -> Iterator[None]:
    """counted(), for who reads a paste. Raises PasteError."""
    try:
        with budget():
            yield
    except TooMuchError:
        reason = (
            "what this becomes, with its variables put in, is more than any launch command. "
            "Paste the command itself."
        )
        raise PasteError(reason, line=1, column=1) from None


def step(count: int = 1) -> None:
    """About a microsecond of work each. Raises TooMuchError."""
    if (left := _left.get()) is not None:
        left.steps -= count
        if left.steps < 0:
            raise TooMuchError


def write(count: int) -> None:
    """So many characters more. Raises TooMuchError."""
    if (left := _left.get()) is not None:
        left.written -= count
        if left.written < 0:
            raise TooMuchError
