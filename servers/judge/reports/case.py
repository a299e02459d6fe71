"""Test cases of reports: the files that a report becomes, and what a person has to fill in."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from servers.judge.reports.document import Report
from servers.judge.reports.failure import judge_failure
from servers.judge.reports.memory import judge_memory
from servers.judge.reports.paste import find_refusal, list_readings
from servers.launch.engines import SERVING

OPEN = "FILL-IN"  # stands where only a person knows: the test fails until it is replaced
_MOST_WORDS = 6
_MARKS = ("### ", "--- gives", "--- fails")  # of tests/commandline/cases


@dataclass(frozen=True, kw_only=True)
class CaseFile:
    path: str  # below the tests' folder
    text: str
    is_appended: bool = False  # to what is there; else the file is new


@dataclass(frozen=True, kw_only=True)
class ReportedCase:
    name: str
    files: tuple[CaseFile, ...]
    todo: tuple[str, ...]  # what a person does next


def make_case(report: Report) -> ReportedCase:
    """The test case of a report, of the kind that it is. Raises ReportError."""
    make = {"failure": _make_failure, "paste": _make_paste, "memory": _make_memory}
    return make[report.kind](report)


def _make_failure(report: Report) -> ReportedCase:
    told = judge_failure(report)
    engine = told["engine"]
    lines = [*report.texts("docker says"), *report.texts("log")]
    name = _name(engine or "docker", report, lines)
    expected: dict[str, Any] = {"engine": engine, "outcome": "failed", "cause": OPEN}
    if re.fullmatch(r"-?\d{1,9}", code := report.facts.get("exit code", "")):
        expected["code"] = int(code)
    folder = "logs/diagnosis/logs"
    return ReportedCase(
        name=name,
        files=(
            CaseFile(path=f"{folder}/{name}.log", text=_join(lines)),
            CaseFile(
                path=f"{folder}/expected.yaml",
                text=f"{_remark(report)}{name}: {_flow(expected)}\n",
                is_appended=True,
            ),
        ),
        todo=(
            f"In {folder}/expected.yaml replace {OPEN} of {name} by the id of the cause (null: nothing "
            "that the catalogue should know), and add “line”, the number of the line that shows it. "
            f"Today it is {told['cause'] or 'null'}.",
            "If no entry has that cause, add one to servers/judge/logs/failures, and its lines to "
            "logs/diagnosis/cases.yaml.",
            f"pytest {folder.rpartition('/')[0]} is green when both agree.",
        ),
    )


def _make_paste(report: Report) -> ReportedCase:
    texts = report.texts("paste")
    name = _name(report.facts.get("engine") or "paste", report, texts)
    refusal = find_refusal(report)
    title = report.truth or "what it should be read as"
    # A heading of the paste is none of the file's: a space keeps the two apart.
    kept = [f" {each}" if each.startswith(_MARKS) else each for each in texts]
    text = f"\n### {title} ({name})\n{_join(kept)}--- gives\n"
    if refusal is None:
        text += "".join(f"{OPEN} {reading}\n" for reading in list_readings(report))
        do = "correct each line to what must be read, and delete the words in front of it"
    else:
        text += f"{OPEN} refused today: {refusal}\n"
        do = (
            "write a JSON object for each launch, or “--- fails at LINE:COLUMN” and the sentence if "
            "it is refused rightly"
        )
    path = "commandline/cases/reported.txt"
    return ReportedCase(
        name=name,
        files=(CaseFile(path=path, text=text, is_appended=True),),
        todo=(
            f"In {path}, below “{title}”: {do} ({OPEN}).",
            "pytest commandline/test_cases.py is green when the paste is read so.",
        ),
    )


def _make_memory(report: Report) -> ReportedCase:
    told = judge_memory(report)
    lines = report.texts("recording")
    name = _name("box", report, lines)
    last = {each.gpu: each.verdict for each in told}
    doubted = report.facts.get("card", "").partition(" ")[0]
    is_named = doubted in last
    expected = {
        gpu: OPEN if gpu == doubted or not is_named else verdict for gpu, verdict in last.items()
    }
    row: dict[str, Any] = {"verdicts": expected}
    for fact in ("baselines", "thresholds"):
        if said := report.facts.get(fact):
            row[fact] = json.loads(said)
    folder = "memory/recordings"
    return ReportedCase(
        name=name,
        files=(
            CaseFile(path=f"{folder}/{name}.jsonl", text=_join(lines)),
            CaseFile(
                path=f"{folder}/expected.yaml",
                text=f"{_remark(report)}{name}: {_flow(row)}\n",
                is_appended=True,
            ),
        ),
        todo=(
            f"In {folder}/expected.yaml replace {OPEN} of {name} by the verdict that is right for "
            f"{doubted or 'each GPU'}. Today it is {last.get(doubted) or last or 'none'}.",
            "pytest memory/test_reported.py is green when the replay ends with it.",
        ),
    )


def _name(first: str, report: Report, lines: list[str]) -> str:
    """By what is said to be true; the same for the same report, so that none is taken up twice."""
    words = re.findall(r"[a-z0-9]+", report.truth.lower())[:_MOST_WORDS]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]
    return "-".join((first if first in (*SERVING, "docker", "box") else "paste", *words, digest))


def _remark(report: Report) -> str:
    said = report.facts.get("said", "")
    parts = [f"Reported: {report.truth}" if report.truth else "Reported; nobody knows what it was."]
    parts += [f"On its box: {said}"] if said else []
    return "".join(f"# {part}\n" for part in parts)


def _join(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _flow(value: dict[str, Any]) -> str:
    """One line of YAML, as its neighbours are: JSON is YAML."""
    return json.dumps(value, ensure_ascii=False)
