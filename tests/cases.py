"""A table of cases as one test, which runs every one and names each that fails.

`@table(("text", "seconds"), [("2m", 120), ...])` stands where parametrize would. The rows may also
be a function, called when the test runs: then collecting tests does not read what they are made of.
"""

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
# Each case has its own: what one writes or patches, the next does not see.
FRESH = {"tmp_path", "monkeypatch"}

type Rows = Iterable[Any] | Callable[[], Iterable[Any]]
type Ids = Iterable[str] | Callable[[Any], str] | None


class Cases:
    """Counts the cases that are run inside it, and at its end names those that failed."""

    def __init__(self) -> None:
        self.count = 0
        self.failed: list[tuple[str, BaseException]] = []

    def __enter__(self) -> "Cases":
        return self

    @contextmanager
    def named(self, name: str) -> Iterator[None]:
        self.count += 1
        try:
            yield
        except pytest.exit.Exception:
            raise
        # The last two are no Exception. Skipped counts as failed: a case is run, or is no case.
        except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
            self.failed.append((name, error))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            return
        if not self.count:
            raise AssertionError("There is no case in this table.")
        if self.failed:
            raise AssertionError(self._told()) from self.failed[0][1]

    def _told(self) -> str:
        cases = "\n".join(f"{name}\n{_indented(_why(error))}" for name, error in self.failed)
        return f"{len(self.failed)} of {self.count} cases failed:\n{cases}"


def _why(error: BaseException) -> str:
    """The line of the tests where it broke, and what broke."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if HERE in Path(each.filename).parents]
    at = [each for each in ours if each.filename != __file__][-1:]
    place = [f"{Path(each.filename).relative_to(HERE)}:{each.lineno}: {each.line}" for each in at]
    if isinstance(error, pytest.skip.Exception):
        return "\n".join([*place, f"A case may not be skipped: {error}"])
    return "\n".join([*place, f"{type(error).__name__}: {error}"])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def table[T: Callable[..., None]](
    names: str | tuple[str, ...], rows: Rows, *, ids: Ids = None, shared: tuple[str, ...] = ()
) -> Callable[[T], T]:
    """Has a test run for every row, with its values as the arguments of these names.

    `shared` names the fixtures that one case may leave to the next: those that no case changes.
    """
    wanted = (names,) if isinstance(names, str) else names
    kept_rows = rows if callable(rows) else list(rows)  # what can be read only once is read here

    def decorate(test: T) -> T:
        parameters = inspect.signature(test).parameters
        rest = {name: each for name, each in parameters.items() if name not in wanted}
        if unknown := set(wanted) - set(parameters):
            raise TypeError(f"{test.__name__} has no argument {', '.join(sorted(unknown))}.")
        if inspect.iscoroutinefunction(test):
            raise TypeError(f"{test.__name__} is a coroutine, which would not be waited for.")
        if kept := set(rest) - FRESH - set(shared):
            raise TypeError(
                f"The cases of {test.__name__} would share {', '.join(sorted(kept))}."
                " Name it in `shared` if none of them changes it."
            )

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            with Cases() as cases:
                for at, (name, values) in enumerate(_read(wanted, kept_rows, ids)):
                    with cases.named(name), _fresh(fixtures, at) as own:
                        test(**dict(zip(wanted, values, strict=True)), **own)

        run.__signature__ = inspect.Signature(list(rest.values()))  # type: ignore[attr-defined]
        return run  # type: ignore[return-value]

    return decorate


@contextmanager
def _fresh(fixtures: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / f"case-{at}"
        own["tmp_path"].mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" in own:
            own["monkeypatch"] = patch
        yield own


def _read(names: tuple[str, ...], rows: Rows, ids: Ids) -> Iterator[tuple[str, tuple[Any, ...]]]:
    listed = list(rows() if callable(rows) else rows)
    said = None if ids is None or callable(ids) else list(ids)
    if said is not None and len(said) != len(listed):
        raise ValueError(f"{len(listed)} rows have {len(said)} names.")
    for at, row in enumerate(listed):
        name = None
        if isinstance(row, type(pytest.param())):
            if row.marks:
                raise ValueError("A row has no marks: nothing here would heed them.")
            name, values = row.id, tuple(row.values)
        else:
            values = (row,) if len(names) == 1 else tuple(row)
        if len(values) != len(names):
            raise ValueError(f"Row {at + 1} has {len(values)} values, for {len(names)} names.")
        if said is not None:
            name = said[at]
        elif callable(ids):
            name = " ".join(ids(value) for value in values)
        yield str(name or _shown(names, values)), values


def _shown(names: tuple[str, ...], values: tuple[Any, ...]) -> str:
    """A line, so that a table of whole files can be read, too."""
    words = [
        f"{name}={text[:57]}..." if len(text := repr(value)) > 60 else f"{name}={text}"
        for name, value in zip(names, values, strict=True)
    ]
    return re.sub(r"\s+", " ", ", ".join(words))
