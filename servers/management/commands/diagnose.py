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

from servers.judge.logs import diagnosis, parsing
from servers.judge.logs.diagnosis import readable, report
from servers.judge.memory.pools import GIB
from servers.judge.reports import document
from servers.judge.reports.document import Report, ReportError, list_readings
from servers.judge.reports.failure import ReportedCase, judge_failure, make_case
from servers.judge.reports.memory import judge_memory

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
            found = read_report(name)
            self.stdout.write(describe_report(found))
            if into is None:
                return
            case = write_case(found, _find_tests(into))
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


class CaseError(Exception):
    """A file that is no report, or a case that cannot be written; the text says what to do."""


def read_report(name: str) -> Report:
    """Raises CaseError."""
    try:
        text = Path(name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError) as error:
        raise CaseError(f"{name} cannot be read: {error}") from error
    try:
        return document.read(text)
    except ReportError as error:
        raise CaseError(f"{name}, {error}") from error


def describe_report(report: Report) -> str:
    """What inferdash says of it by now. Raises ReportError."""
    rows = [
        f"True: {parsing.safe(report.truth)}" if report.truth else "True: nobody has said what."
    ]
    if said := report.facts.get("said"):
        rows.append(f"On its box: {parsing.safe(said)}")
    rows.append("Now:")
    if report.kind == "failure":
        rows.append(diagnosis.readable(judge_failure(report)))
    elif report.kind == "paste":
        rows += map(parsing.safe, list_readings(report))
    else:
        rows += [
            f"{each.gpu} {each.verdict} ({each.unattributed / GIB:.1f} GiB) {parsing.safe(each.reason)}"
            for each in judge_memory(report)
        ]
    return "\n".join(rows)


def write_case(report: Report, folder: Path) -> ReportedCase:
    """Write the test case of a report below the tests' folder. Raises CaseError, ReportError."""
    case = make_case(report)
    if not folder.is_dir():
        raise CaseError(f"{folder} is no folder. Name the folder of the tests.")
    for file in case.files:
        path = folder / file.path
        is_there = path.exists() and (not file.is_appended or case.name in path.read_text())
        if is_there:
            raise CaseError(
                f"{path} has {case.name} already: this report was taken up before. Delete that first "
                "if it is to be taken up again."
            )
    for file in case.files:
        path = folder / file.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            gap = "\n" if before and not before.endswith("\n") else ""
            with path.open("a" if file.is_appended else "x", encoding="utf-8") as target:
                target.write(gap + file.text)
        except OSError as error:
            raise CaseError(f"{path} cannot be written: {error}") from error
    return case
