"""Say why an engine failed, from its log: `docker logs NAME 2>&1 | manage.py diagnose -`."""

import json
import sys
import zlib
from argparse import ArgumentParser
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from gzip import GzipFile
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from servers.judge.logs.diagnosis import readable, report
from servers.judge.reports.document import ReportError
from servers.management import reported_cases
from servers.management.reported_cases import CaseError

_GZIP = b"\x1f\x8b"
_UNREADABLE = 2  # the exit code for what cannot be read


class Command(BaseCommand):
    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true", help="print one JSON object")
        form.add_argument(
            "--jsonl",
            action="store_true",
            help='read {"id", "text", "exit_code"?} lines and print one result a line',
        )
        form.add_argument(
            "--case",
            metavar="FILE",
            help="a report that a page has saved: print what is said of it now",
        )
        parser.add_argument(
            "--into",
            nargs="?",
            const="",
            metavar="FOLDER",
            help="with --case: write it as a test case into this folder of tests; "
            "without a name into the checkout's own",
        )
        parser.add_argument("--exit-code", type=int, help="the exit code of the engine")
        parser.add_argument("file", nargs="?", default="-", help="- is standard input")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["case"] or options["into"] is not None:
            self._take_up_report(options["case"], options["into"])
            return
        try:
            if options["jsonl"]:
                self._many(options["file"])
                return
            told = report(_lines(options["file"]), exit_code=options["exit_code"])
        except (OSError, EOFError, zlib.error) as error:
            self.stderr.write(f"{options['file']} cannot be read: {error}")
            raise SystemExit(_UNREADABLE) from error
        if options["json"]:
            self.stdout.write(json.dumps(told, ensure_ascii=False, indent=2))
        else:
            self.stdout.write(readable(told))

    def _take_up_report(self, name: str | None, into: str | None) -> None:
        try:
            if name is None:
                raise CaseError("--into needs --case FILE: the report that becomes a test case.")
            found = reported_cases.read_report(name)
            self.stdout.write(reported_cases.describe_report(found))
            if into is None:
                return
            case = reported_cases.write_case(found, _find_tests(into))
        except ReportError as error:
            self.stderr.write(f"{name}, {error}")
            raise SystemExit(_UNREADABLE) from error
        except CaseError as error:
            self.stderr.write(str(error))
            raise SystemExit(_UNREADABLE) from error
        self.stdout.write("Written:")
        for file in case.files:
            self.stdout.write(f"  {_find_tests(into) / file.path}")
        self.stdout.write("To do:")
        for each in case.todo:
            self.stdout.write(f"  - {each}")

    def _many(self, name: str) -> None:
        for number, line in enumerate(_lines(name), start=1):
            if not line.strip():
                continue
            try:
                said = json.loads(line)
                identifier, text, code = said["id"], said["text"], said.get("exit_code")
                if not isinstance(text, str) or not isinstance(code, int | None):
                    raise TypeError
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.stderr.write(
                    f'Line {number} is no object with "id", a "text" and perhaps an "exit_code".'
                )
                raise SystemExit(_UNREADABLE) from error
            told = {"id": identifier, **report(text.split("\n"), exit_code=code)}
            self.stdout.write(json.dumps(told))  # an id may hold what no terminal can write


def _find_tests(folder: str) -> Path:
    """Raises CaseError."""
    if folder:
        return Path(folder)
    if not settings.IS_CHECKOUT:
        raise CaseError("This is no checkout with tests: name their folder behind --into.")
    return Path(settings.FILES) / "tests"


def _lines(name: str) -> Iterator[str]:
    """Line by line: a log may be larger than memory. What is no UTF-8 is shown as such.

    Read as well: what inferdash lets one download as .gz, and what PowerShell writes (UTF-16).
    """
    if name == "-":
        yield from _strip_lines(TextIOWrapper(sys.stdin.buffer, errors="replace", newline="\n"))
        return
    with Path(name).open("rb") as file:
        begins = file.peek(2)[:2]
        plain = GzipFile(fileobj=file) if begins == _GZIP else file
        encoding = "utf-16" if begins in (BOM_UTF16_LE, BOM_UTF16_BE) else "utf-8-sig"
        with TextIOWrapper(plain, encoding, errors="replace", newline="\n") as log:
            yield from _strip_lines(log)


def _strip_lines(log: TextIOWrapper) -> Iterator[str]:
    for line in log:
        yield line.rstrip("\r\n")
