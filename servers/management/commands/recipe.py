"""Check a recipe before it is shared: every error with where it is and what to do."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from servers.judge.profiles.facts import Subject
from servers.judge.profiles.lint import lint
from servers.launch.recipes.catalogue import Recipe, find_errors, find_remarks

_UNREADABLE = 2  # the exit code for what cannot be read


class Command(BaseCommand):
    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        check = verbs.add_parser("check", help="say what is wrong in files; 1: something is")
        check.add_argument("files", nargs="+", metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        count = sum(self._check(Path(name)) for name in options["files"])
        if count:
            raise SystemExit(1)

    def _check(self, path: Path) -> int:
        """How many errors the file has."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "It is not text in UTF-8"
            self.stderr.write(f"{path} cannot be read: {reason}.")
            raise SystemExit(_UNREADABLE) from error
        errors, recipe = find_errors(text, path)
        said = [str(error) for error in errors]
        remarks: list[str] = []
        if recipe is not None:
            judged, remarks = _judge(recipe)
            said += [f"{path}: {each}" for each in judged]
        for each in said:
            self.stdout.write(f"error: {each}")
        for each in remarks:
            self.stdout.write(f"remark: {path}: {each}")
        if not said:
            self.stdout.write(f"{path} is a recipe that inferdash can start.")
        return len(said)


def _judge(recipe: Recipe) -> tuple[list[str], list[str]]:
    """Errors and remarks on its launch, by the rules that the profile form knows.

    With the newest migration, where the file has one: that is what people start.
    """
    errors, remarks = list[str](), find_remarks(recipe.published)
    if not recipe.is_startable:
        return errors, [*remarks, "boxes: more than one cannot be started yet."]
    launch = recipe.launch(recipe.migrated[-1] if recipe.migrated else None)
    for finding in lint(Subject(launch=launch)):
        said = f"{finding.about}: {finding.says}"
        if finding.severity == "error":
            errors.append(said)
        elif finding.severity == "warning":
            remarks.append(said)
    return errors, remarks
