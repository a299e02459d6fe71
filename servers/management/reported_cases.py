"""Test cases from reports: the command's side, which reads the file and writes the case's."""

from pathlib import Path

from servers.judge.logs import diagnosis, parsing
from servers.judge.memory.pools import GIB
from servers.judge.reports import document
from servers.judge.reports.case import ReportedCase, make_case
from servers.judge.reports.document import Report, ReportError
from servers.judge.reports.failure import judge_failure
from servers.judge.reports.memory import judge_memory
from servers.judge.reports.paste import list_readings


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
