"""Reports of failures, read anew, and the test cases that they become."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import yaml

from servers.judge.logs import diagnosis, parsing
from servers.judge.logs.diagnosis import Ending
from servers.judge.logs.phases import reader as phases
from servers.judge.profiles.facts import BoxKind, Subject, TargetGpu
from servers.judge.reports.document import (
    Report,
    ReportLine,
    find_refusal,
    list_readings,
    number_lines,
)
from servers.judge.reports.memory import judge_memory
from servers.judge.reports.redaction import Redactor, mask_whole
from servers.launch.engines import SERVING
from servers.launch.engines.launch import Launch
from servers.launch.recipes import document as profiles
from servers.launch.recipes.document import Document
from servers.launch.recipes.notation import DocumentError
from servers.launch.redaction import MASK

MOST_LINES = 400
LONGEST_LINE = 2000  # characters
# Of a long log: its beginning, what is around the lines that tell most, and its end.
_FIRST, _AROUND = 120, 8
GIB = 2**30

_CARD = re.compile(
    r"(?P<count>\d{1,4}) × (?P<name>[^;(]{1,120}?) \((?P<capability>[\d.]{1,8}|-), "
    r"(?P<kind>discrete|unified|numa|-), (?P<size>[\d.]{1,12} GiB|-)\)"
)
# What says nothing of a failure, and is long or somebody's own.
_NOT_TOLD = ("dockerfile", "build_files", "reasons", "digests", "expected")


@dataclass(frozen=True, kw_only=True)
class ReportedCard:
    """A GPU as its box tells of it; "" and None: not reported."""

    name: str
    capability: str = ""
    kind: str = ""
    memory: int | None = None  # bytes


@dataclass(frozen=True, kw_only=True)
class FailureFacts:
    """What is known of a failure, before anything is redacted. "", None and () are not known."""

    lines: Sequence[tuple[int, str]]  # numbered, those of the log that are at hand
    telling: Collection[int] = ()  # numbers of lines that must not be left out
    docker_says: str = ""  # where no container was made
    launch: Launch | None = None
    said: str = ""  # what inferdash says of it
    inferdash: str = ""
    engine: str = ""
    engine_version: str = ""
    image: str = ""
    driver: str = ""
    docker: str = ""
    cards: Sequence[ReportedCard] = ()
    exit_code: int | None = None
    is_oom_killed: bool = False
    was_ready: bool | None = None
    phases: Sequence[str] = ()
    checks: Sequence[str] = ()  # ids of rules with their severity
    ready_line: int | None = None


def build_failure(facts: FailureFacts, redactor: Redactor, *, truth: str = "") -> Report:
    """The report of a failure, redacted. `truth` is what a person says that it was; "": unknown."""
    lines = choose_lines(facts.lines, {*facts.telling, facts.ready_line or 0})
    texts = [_clean(text) for _number, text in lines]
    docker = facts.docker_says.splitlines()
    said = {
        "truth": truth,
        "said": facts.said,
        "engine version": facts.engine_version,
        "image": facts.image,
        "checks": ", ".join(facts.checks),
    }
    launch = _tell_launch(facts.launch) if facts.launch else {}
    redactor.learn([*texts, *docker, *said.values(), *_walk_texts(launch)])
    return Report(
        kind="failure",
        facts={
            **{name: redactor.redact(text) for name, text in said.items()},
            "inferdash": facts.inferdash,
            "engine": facts.engine,
            "driver": facts.driver,
            "docker": facts.docker,
            "cards": describe_cards(facts.cards),
            "exit code": "" if facts.exit_code is None else str(facts.exit_code),
            "killed for memory": "yes" if facts.is_oom_killed else "",
            "became ready": {None: "", True: "yes", False: "no"}[facts.was_ready],
            "phases": ", ".join(facts.phases),
        },
        parts={
            name: part
            for name, part in (
                ("launch", number_lines(_write_launch(launch, redactor))),
                ("docker says", number_lines(redactor.redact_lines(docker))),
                ("log", tuple(_number(lines, redactor.redact_lines(texts)))),
            )
            if part or name == "log"
        },
    )


def choose_lines(
    lines: Sequence[tuple[int, str]], telling: Collection[int]
) -> list[tuple[int, str]]:
    """At most MOST_LINES: the first ones, those around the telling ones, and the last ones."""
    if len(lines) <= MOST_LINES:
        return list(lines)
    wanted = set(range(_FIRST))
    at = {number: place for place, (number, _text) in enumerate(lines)}
    for number in sorted(telling):
        if (place := at.get(number)) is not None and len(wanted) < MOST_LINES * 3 // 4:
            wanted |= {*range(max(0, place - _AROUND), min(place + _AROUND + 1, len(lines)))}
    for place in reversed(range(len(lines))):
        if len(wanted) >= MOST_LINES:
            break
        wanted.add(place)
    return [lines[place] for place in sorted(wanted)]


def _clean(text: str) -> str:
    """What a terminal would show last, without what it would obey."""
    pieces = list(parsing.pieces(text))
    said = parsing.safe(pieces[-1] if pieces else "")
    return said if len(said) <= LONGEST_LINE else f"{said[: LONGEST_LINE - 1]}…"


def _number(lines: Sequence[tuple[int, str]], texts: Sequence[str]) -> Iterator[ReportLine]:
    for (number, _text), text in zip(lines, texts, strict=True):
        yield ReportLine(number=number, text=text)


def _tell_launch(launch: Launch) -> dict[str, Any]:
    """The launch as the keys of a profile's YAML."""
    plain = replace(launch, secret_env={})
    kept = yaml.safe_load(profiles.write(Document(name="reported", launch=plain)))
    found: dict[str, Any] = {key: value for key, value in kept.items() if key not in _NOT_TOLD}
    return found


def _walk_texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield f"{key}={each}" if isinstance(each, str) else str(key)
            yield from _walk_texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _walk_texts(each)
    elif isinstance(value, str):
        yield value


def _write_launch(launch: Mapping[str, Any], redactor: Redactor) -> list[str]:
    if not launch:
        return []
    return profiles.write_mapping(_redact_value("", launch, redactor)).splitlines()


def _redact_value(name: str, value: Any, redactor: Redactor) -> Any:
    if isinstance(value, Mapping):
        # The keys of a profile are nobody's; those inside of them are names of variables.
        return {
            redactor.redact(str(key)) if name else key: _redact_value(str(key), each, redactor)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_redact_value("", each, redactor) for each in value]
    if not isinstance(value, str):
        return value
    if not name:
        return redactor.redact(value)
    # Together with its name, which may say that it is a secret, and all of it.
    if len(value.split()) > 1 and redactor.redact(f"{name}=s3same") == f"{name}={MASK}":
        return mask_whole(value)
    return redactor.redact(f"{name}={value}").partition("=")[2]


def describe_cards(cards: Sequence[ReportedCard]) -> str:
    """ "2 × NVIDIA GB10 (12.1, unified, 119.6 GiB)"; "-" for what is not reported."""
    return "; ".join(
        f"{count} × {card.name} ({card.capability or '-'}, {card.kind or '-'}, "
        f"{'-' if card.memory is None else f'{card.memory / GIB:.1f} GiB'})"
        for card, count in Counter(cards).items()
    )


def _read_cards(text: str) -> tuple[TargetGpu, ...]:
    found: list[TargetGpu] = []
    for each in _CARD.finditer(text):
        size = each["size"].removesuffix(" GiB")
        for _ in range(int(each["count"])):
            found.append(
                TargetGpu(
                    index=len(found),
                    name=each["name"],
                    compute_capability=each["capability"].strip("-"),
                    memory=None if size == "-" else int(float(size) * GIB),
                )
            )
    return tuple(found)


def _read_subject(report: Report) -> Subject | None:
    """What rules look at, as far as the report tells; None where it has no launch that can be read."""
    try:
        read = profiles.read("\n".join(report.texts("launch")), where="The report")
    except DocumentError:
        return None
    cards = report.facts.get("cards", "")
    kinds = {each["kind"] for each in _CARD.finditer(cards)} - {"-"}
    return Subject(
        launch=read.launch,
        engine_version=report.facts.get("engine version", ""),
        gpus=_read_cards(cards) or None,
        box_kind=cast(BoxKind, kinds.pop()) if len(kinds) == 1 else "",
        driver=report.facts.get("driver", ""),
    )


def judge_failure(report: Report) -> dict[str, Any]:
    """The diagnosis of a reported failure, with the keys of diagnosis.report()."""
    facts = report.facts
    code = facts.get("exit code", "")
    lines = [(line.number, line.text) for line in report.parts["log"]]
    engine = facts.get("engine", "")
    found = diagnosis.diagnose(
        Ending(
            lines=lines,
            exit_code=int(code) if re.fullmatch(r"-?\d{1,9}", code) else None,
            oom_killed=facts.get("killed for memory") == "yes",
            docker_error="\n".join(report.texts("docker says")),
            subject=_read_subject(report),
            engine=engine if engine in SERVING else "",
            was_ready={"yes": True, "no": False}.get(facts.get("became ready", "")),
        )
    )
    return {
        "engine": engine if engine in SERVING else None,
        "phases": _list_phases(facts, lines, engine),
        "outcome": found.outcome,
        "cause": found.cause,
        "summary": found.summary,
        "fix": diagnosis.fixes(found, engine),
        "evidence": [{"line": each.line, "text": each.text} for each in found.evidence],
    }


def _list_phases(
    facts: Mapping[str, str], lines: Iterable[tuple[int, str]], engine: str
) -> list[str]:
    """Those that the box has seen in the whole log; else what these lines prove."""
    if said := facts.get("phases"):
        return [each.strip() for each in said.split(",")]
    reader = phases.Reader(engine if engine in SERVING else "")
    for number, text in lines:
        reader.feed(number, text)
    return reader.progress.coarse


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
        files=_list_files(report, f"{folder}/{name}.log", lines, expected),
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
        files=_list_files(report, f"{folder}/{name}.jsonl", lines, row),
        todo=(
            f"In {folder}/expected.yaml replace {OPEN} of {name} by the verdict that is right for "
            f"{doubted or 'each GPU'}. Today it is {last.get(doubted) or last or 'none'}.",
            "pytest memory/test_reported.py is green when the replay ends with it.",
        ),
    )


def _list_files(
    report: Report, path: str, lines: list[str], expected: dict[str, Any]
) -> tuple[CaseFile, ...]:
    """What was said, and a line of the expectations beside it."""
    folder, _, file = path.rpartition("/")
    row = f"{_remark(report)}{file.partition('.')[0]}: {json.dumps(expected, ensure_ascii=False)}\n"
    return (
        CaseFile(path=path, text=_join(lines)),
        CaseFile(path=f"{folder}/expected.yaml", text=row, is_appended=True),
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
