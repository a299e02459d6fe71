"""Every error of a recipe's file, not only the first, and what would make it better."""

from dataclasses import replace
from pathlib import Path

from servers.launch.recipes import catalogue
from servers.launch.recipes.catalogue import Recipe
from servers.launch.recipes.document import Document
from servers.launch.recipes.mapping import DocumentError, Mapping

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
        catalogue.check_name(path, str(path))
    except DocumentError as error:
        errors.append(error)
    try:
        found = Mapping.parse(text, where=str(path))
    except DocumentError as error:
        return [*errors, error], None
    while len(errors) < MOST:
        try:
            read = catalogue.recipe(found, path)
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
