"""The recipes and overlays at hand: those that ship with inferdash, and a folder of one's own."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from servers.launch.engines import ENGINES
from servers.launch.engines.change import FlagValue, LaunchChange
from servers.launch.engines.launch import Launch
from servers.launch.recipes.document import (
    Document,
    RecipeSource,
    launch_value,
    read_mapping,
    read_source,
)
from servers.launch.recipes.notation import LONGEST_TEXT, DocumentError, Mapping

HERE = Path(__file__).parent
SHIPPED = HERE / "library"
SHIPPED_OVERLAYS = HERE / "overlays"
OVERLAYS = "overlays"  # the folder for them in a folder of one's own
_SUFFIXES = (".yaml", ".yml")
_ID = re.compile(r"[A-Za-z0-9_-]{1,63}")


@dataclass(frozen=True, kw_only=True)
class Migration:
    """What a newer engine wants changed of a recipe."""

    checked_with: str  # an image whose version accepts the changed command line
    change: LaunchChange
    why: str


@dataclass(frozen=True, kw_only=True)
class Recipe:
    id: str
    published: Document
    migrated: tuple[Migration, ...] = ()
    path: Path
    is_own: bool

    @property
    def is_startable(self) -> bool:
        return self.published.boxes == 1

    def launch(self, migration: Migration | None = None) -> Launch:
        """As published, or as a migration changes it."""
        launch = self.published.launch
        return migration.change.apply(launch) if migration else launch


@dataclass(frozen=True, kw_only=True)
class Overlay:
    """A set of changes that may be laid over any launch of its engine."""

    id: str
    name: str
    notes: str = ""
    source: RecipeSource = field(default_factory=RecipeSource)
    engine: str = ""  # "" = any
    change: LaunchChange
    path: Path | None = None  # None: it is kept in the database
    is_own: bool

    def is_for(self, launch: Launch) -> bool:
        return self.engine in ("", launch.engine)


@dataclass(frozen=True, kw_only=True)
class BrokenRecipe:
    """A file that could not be read, and why."""

    path: Path
    reason: str


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    recipes: tuple[Recipe, ...] = ()
    overlays: tuple[Overlay, ...] = ()
    broken: tuple[BrokenRecipe, ...] = ()


def catalogue(folder: Path | None = None) -> Catalogue:
    """What ships, and what lies in a folder of one's own, each by its file's name.

    A file of one's own takes the place of a shipped one of the same name. A file that cannot be
    read is in `broken` and hides no other, nor does a folder that cannot be read.
    """
    shipped = _load_shipped()
    if folder is None:
        return shipped
    own = _read(folder, folder / OVERLAYS, is_own=True)
    return Catalogue(
        recipes=_merge(shipped.recipes, own.recipes),
        overlays=_merge(shipped.overlays, own.overlays),
        broken=own.broken,
    )


@cache
def _load_shipped() -> Catalogue:
    return _read(SHIPPED, SHIPPED_OVERLAYS, is_own=False)


def _merge[Entry: (Recipe, Overlay)](
    shipped: tuple[Entry, ...], own: tuple[Entry, ...]
) -> tuple[Entry, ...]:
    by_id = {entry.id: entry for entry in shipped} | {entry.id: entry for entry in own}
    return tuple(by_id.values())


def _read(recipes: Path, overlays: Path, *, is_own: bool) -> Catalogue:
    broken: list[BrokenRecipe] = []
    return Catalogue(
        recipes=tuple(_each(recipes, recipe, broken, is_own=is_own)),
        overlays=tuple(_each(overlays, _overlay, broken, is_own=is_own, may_be_missing=is_own)),
        broken=tuple(broken),
    )


def _each[Entry](
    folder: Path,
    reader: Callable[[Mapping, Path, bool], Entry],
    broken: list[BrokenRecipe],
    *,
    is_own: bool,
    may_be_missing: bool = False,
) -> Iterator[Entry]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    except OSError as error:
        if not (may_be_missing and isinstance(error, FileNotFoundError)):
            reason = f"The folder cannot be read: {error.strerror}."
            broken.append(BrokenRecipe(path=folder, reason=reason))
        return
    for path in paths:
        try:
            check_name(path, path.name)
            yield reader(Mapping.parse(_text(path), where=str(path)), path, is_own)
        except UnicodeDecodeError:
            broken.append(BrokenRecipe(path=path, reason="The file is not UTF-8 text."))
        except OSError as error:
            broken.append(BrokenRecipe(path=path, reason=f"It cannot be read: {error.strerror}."))
        except DocumentError as error:
            broken.append(BrokenRecipe(path=path, reason=str(error)))


def check_name(path: Path, where: str) -> None:
    """Raises DocumentError for a file that no catalogue would list."""
    if not _ID.fullmatch(path.stem) or path.suffix not in _SUFFIXES:
        raise DocumentError(
            "Rename it: letters, digits, - and _ before .yaml, at most 63.", where=where
        )


def _text(path: Path) -> str:
    if not path.is_file():  # a pipe would keep us waiting
        raise DocumentError("This is not a file.", where=str(path))
    with path.open(encoding="utf-8") as file:
        return file.read(LONGEST_TEXT + 1)


def recipe(found: Mapping, path: Path, is_own: bool = True) -> Recipe:
    """What a file says. Raises DocumentError."""
    published = read_mapping(found, also=("migrated",))
    return Recipe(
        id=path.stem,
        published=published,
        migrated=tuple(_migration(each) for each in found.mappings("migrated")),
        path=path,
        is_own=is_own,
    )


def _migration(found: Mapping) -> Migration:
    keys = ("checked_with", "change", "why")
    found.check(keys, required=keys)
    return Migration(
        checked_with=found.text("checked_with"),
        change=change(found.get_mapping("change")),
        why=found.text("why"),
    )


def _overlay(found: Mapping, path: Path, is_own: bool) -> Overlay:
    found.check(("name", "notes", "source", "engine", "change"), required=("name", "change"))
    engine = found.text("engine")
    if engine and engine not in ENGINES:
        raise found.error(f"“{engine}” is not one of {', '.join(ENGINES)}.", "engine")
    return Overlay(
        id=path.stem,
        name=found.text("name"),
        notes=found.text("notes"),
        source=read_source(found),
        engine=engine,
        change=change(found.get_mapping("change")),
        path=path,
        is_own=is_own,
    )


def _flag_value(flags: Mapping, name: str) -> FlagValue:
    if flags.is_list(name):
        return flags.texts(name)
    return None if flags.is_nothing(name) else flags.text(name)


def change(found: Mapping) -> LaunchChange:
    """A set of changes as YAML says it; a flag with nothing behind it has no value.

    Raises DocumentError.
    """
    keys = ("set_flags", "drop_flags", "set_env", "drop_env", "fields", "reasons")
    found.check(keys)
    flags = found.get_mapping("set_flags")
    of_launch = found.get_mapping("fields")
    values: dict[str, Any] = {
        "set_flags": {name: _flag_value(flags, name) for name in flags},
        "drop_flags": found.texts("drop_flags"),
        "set_env": found.get_mapping("set_env").values(),
        "drop_env": found.texts("drop_env"),
        "fields": {name: launch_value(of_launch, name) for name in of_launch},
        "reasons": found.get_mapping("reasons").values(),
    }
    try:
        return LaunchChange.from_json(values)
    except ValueError as error:
        raise found.error(str(error)) from error


# Of one file; who has more has written something else.
MOST = 50
# What stands in for a key with an error, so that the rest of the file is read.
_STAND_INS = {"name": "?", "engine": "vllm", "image": "?", "checkpoint": "?"}


def find_errors(text: str, path: Path) -> tuple[list[DocumentError], Recipe | None]:
    """All errors in the order of their lines, and the recipe where there is none.

    An error hides others of the same key only.
    """
    errors: list[DocumentError] = []
    try:
        check_name(path, str(path))
    except DocumentError as error:
        errors.append(error)
    try:
        found = Mapping.parse(text, where=str(path))
    except DocumentError as error:
        return [*errors, error], None
    while len(errors) < MOST:
        try:
            read = recipe(found, path)
        except DocumentError as error:
            errors.append(error)
            if (rest := _drop_error(found, error)) is None:
                break
            found = rest
        else:
            return sorted(errors, key=lambda each: each.line), None if errors else read
    return sorted(errors, key=lambda each: each.line), None


def _drop_error(found: Mapping, error: DocumentError) -> Mapping | None:
    """The file without what is wrong in it; None where nobody knows what that is."""
    if error.key in _STAND_INS:
        stand_in = Mapping.parse(f"{error.key}: {_STAND_INS[error.key]}", where=found.where)
        if error.key in found and found.text(error.key) == _STAND_INS[error.key]:
            return None
        return replace(found, nodes=found.nodes | stand_in.nodes)
    # A key inside another one, or that one.
    for name, node in found.nodes.items():
        begins, ends = node.start_mark.line + 1, node.end_mark.line + 1
        if name == error.key or begins <= error.line <= ends:
            return replace(found, nodes={key: n for key, n in found.nodes.items() if key != name})
    return None


def find_remarks(document: Document) -> list[str]:
    """What is no error, and would help who finds the recipe."""
    launch, remarks = document.launch, []
    if not document.source.title and not document.source.url:
        remarks.append("source: say who published the launch, with a title and a link.")
    if not launch.hardware:
        remarks.append("hardware: say what it was made for, such as 2x RTX PRO 6000.")
    if not launch.expected:
        remarks.append("expected: say what was measured, such as tokens per second: 60-80.")
    tag = launch.image.rpartition(":")[2]
    if "@" not in launch.image and (tag == launch.image or tag.startswith("latest") or "/" in tag):
        remarks.append(f"image: {launch.image} means another build tomorrow. Name a version.")
    for volume in launch.volumes:
        if volume.startswith(("/home/", "/Users/", "/root/")):
            remarks.append(
                f"volumes: {volume} is a folder of your machine. Write ~/… or leave it out."
            )
    return remarks
