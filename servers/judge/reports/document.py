"""The form of a report: a text that people read, and that reads back as what was written; that of a paste.

inferdash report 1
kind: failure
truth: The driver was too old.
...
--- log
| a line
… 612 lines left out
| another line
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from servers.judge.logs import parsing
from servers.judge.reports.redaction import Redactor
from servers.launch.commandline import paste
from servers.launch.commandline.draft import DraftError, draft
from servers.launch.commandline.tokens import EngineKey, LaunchCommand, PasteError
from servers.launch.engines import ENGINES
from servers.launch.engines.engine import secret_words

type Kind = Literal["failure", "paste", "memory"]

KINDS: tuple[Kind, ...] = get_args(Kind.__value__)
FORM = 1
LONGEST = 4_000_000  # characters of a file that is read as one
_FIRST = re.compile(r"inferdash report (\d{1,6})\Z")
_HEADING = re.compile(r"--- (\S.{0,60})\Z")
_LEFT_OUT = re.compile(r"(?:…|\.\.\.) (\d{1,9}) lines? left out\Z")

# Around a text in an issue; and an empty line, which a part writes as “|”.
_FENCE = re.compile(r"\s*(?:(?:`{3,}|~{3,})\w*\s*)?")

# What each kind may say, in this order, and the parts that it has.
_FACTS: Mapping[str, tuple[str, ...]] = {
    "failure": (
        *("kind", "truth", "said", "inferdash", "engine", "engine version", "image", "driver"),
        *("docker", "cards", "exit code", "killed for memory", "became ready", "phases", "checks"),
    ),
    "paste": ("kind", "truth", "inferdash", "engine"),
    "memory": (
        *("kind", "truth", "said", "inferdash", "card", "driver", "docker", "baselines"),
        "thresholds",
    ),
}
_PARTS: Mapping[str, tuple[str, ...]] = {
    "failure": ("launch", "docker says", "log"),
    "paste": ("paste", "read as", "notes"),
    "memory": ("recording",),
}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "failure": ("log",),
    "paste": ("paste",),
    "memory": ("recording",),
}


class ReportError(ValueError):
    """A text that is no report; the sentence says where and what to do."""

    def __init__(self, says: str, *, line: int, part: str = "") -> None:
        """`line` is one of the file, or of its part."""
        super().__init__(f"line {line} of “{part}”: {says}" if part else f"line {line}: {says}")
        self.line = line


@dataclass(frozen=True, kw_only=True)
class ReportLine:
    number: int  # from 1, in what the part was taken from
    text: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """Facts are texts of one line; what is not known is not among them."""

    kind: Kind
    facts: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, tuple[ReportLine, ...]] = field(default_factory=dict)

    @property
    def truth(self) -> str:
        """What a person says that it was; "" where nobody knows."""
        return self.facts.get("truth", "")

    def texts(self, part: str) -> list[str]:
        return [line.text for line in self.parts.get(part, ())]


def number_lines(texts: Sequence[str]) -> tuple[ReportLine, ...]:
    return tuple(ReportLine(number=n, text=text) for n, text in enumerate(texts, start=1))


def write(report: Report) -> str:
    """The text of a report. It ends with a newline."""
    # What is in a file is looked at with cat.
    text = "".join(f"{parsing.safe(line)}\n" for line in _write(report))
    return text.encode(errors="replace").decode()


def _write(report: Report) -> Iterator[str]:
    yield f"inferdash report {FORM}"
    facts = {**report.facts, "kind": report.kind}
    for name in _FACTS[report.kind]:
        if said := " ".join(facts.get(name, "").split()):
            yield f"{name}: {said}"
    for name in _PARTS[report.kind]:
        if name in report.parts:
            yield f"--- {name}"
            yield from _write_lines(report.parts[name])


def _write_lines(lines: Sequence[ReportLine]) -> Iterator[str]:
    last = 0
    for line in lines:
        if skipped := line.number - last - 1:
            yield f"… {skipped} line{'' if skipped == 1 else 's'} left out"
        yield f"| {line.text}".rstrip()
        last = line.number


def read(text: str) -> Report:
    """A report as write() has written it, also with a fence around it. Raises ReportError."""
    if len(text) > LONGEST:
        raise ReportError("this is larger than any report.", line=1)
    # What stands in a report comes into files of tests: nothing there ends a line but a newline.
    lines = [parsing.safe(line.rstrip("\r")) for line in text.removeprefix("\ufeff").split("\n")]
    at = next((n for n, line in enumerate(lines) if not _FENCE.fullmatch(line)), 0)
    _check_first(lines[at].strip(), at + 1)
    facts: dict[str, str] = {}
    parts: dict[str, list[ReportLine]] = {}
    part, number = "", 0
    for place, line in enumerate(lines[at + 1 :], start=at + 2):
        if _FENCE.fullmatch(line):
            continue
        if heading := _HEADING.match(line):
            part, number = heading[1].strip(), 0
            _check_part(part, parts, facts, place)
            parts[part] = []
        elif not part:
            _read_fact(line, facts, place)
        elif line.startswith("|"):
            number += 1
            said = line[1:].removeprefix(" ")
            parts[part].append(ReportLine(number=number, text=said))
        elif left_out := _LEFT_OUT.match(line.strip()):
            number += int(left_out[1])
        else:
            raise ReportError(
                f"each line of “{part}” begins with “|”. Was the file cut, or its lines wrapped? "
                "Save the report again, or put the sign back.",
                line=place,
            )
    return _finish(facts, parts, len(lines))


def _check_first(line: str, place: int) -> None:
    found = _FIRST.match(line)
    if found is None:
        raise ReportError(
            f"this is no report: the first line of one is “inferdash report {FORM}”. Save one with "
            "Report on the page of a server, a paste or a box.",
            line=place,
        )
    if int(found[1]) > FORM:
        raise ReportError(
            f"this report has form {found[1]}, and this inferdash reads {FORM}. Update inferdash "
            "first.",
            line=place,
        )


def _read_fact(line: str, facts: dict[str, str], place: int) -> None:
    name, colon, said = line.partition(":")
    name = name.strip()
    kind = facts.get("kind", "")
    known = _FACTS.get(kind, ("kind",))
    if not colon:
        raise ReportError(
            f"“{_cut(line)}” says nothing: a line here is “name: value”. Mend it, or delete it.",
            line=place,
        )
    if name not in known:
        wanted = "begins with “kind:”" if not kind else f"has no “{_cut(name)}”"
        raise ReportError(
            f"a report {wanted}. Known here: {', '.join(known)}. Mend the name, or delete the line.",
            line=place,
        )
    if name in facts:
        raise ReportError(f"“{name}” stands here twice. Delete one of the two.", line=place)
    facts[name] = said.strip()
    if name == "kind" and facts["kind"] not in KINDS:
        raise ReportError(
            f"“{_cut(facts['kind'])}” is no kind of report: there are {', '.join(KINDS)}.",
            line=place,
        )


def _check_part(
    part: str, parts: Mapping[str, object], facts: Mapping[str, str], place: int
) -> None:
    kind = facts.get("kind")
    if kind is None:
        raise ReportError(
            f"a line “kind: …” is missing before “{_cut(part)}”. Write it.", line=place
        )
    if part not in _PARTS[kind]:
        raise ReportError(
            f"a {kind} report has no part “{_cut(part)}”. Known are {', '.join(_PARTS[kind])}.",
            line=place,
        )
    if part in parts:
        raise ReportError(f"the part “{part}” is here twice. Delete one of the two.", line=place)


def _finish(facts: dict[str, str], parts: dict[str, list[ReportLine]], last: int) -> Report:
    kind = facts.pop("kind", None)
    if kind is None:
        raise ReportError("the line “kind: …” is missing. Was the file cut?", line=last)
    for name in _REQUIRED[kind]:
        if not parts.get(name):
            raise ReportError(
                f"the part “--- {name}” is missing or empty. Was the file cut?", line=last
            )
    return Report(
        kind=cast(Kind, kind),
        facts=facts,
        parts={name: tuple(lines) for name, lines in parts.items()},
    )


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"


MOST = 100_000  # characters of a paste; no launch is longer


def build_paste(
    text: str, redactor: Redactor, *, truth: str = "", engine: str = "", inferdash: str = ""
) -> Report:
    """The report of a paste, redacted. What it is read as is read of the redacted text.

    `engine` is what a person chose for it, a key of ENGINES; "": nothing.
    """
    cut = text[:MOST]
    redactor.learn([cut, truth])
    redactor.learn_keys(_find_keys(cut))
    redacted = redactor.redact(cut.replace("\r\n", "\n").rstrip("\n"))
    report = Report(
        kind="paste",
        facts={"truth": redactor.redact(truth), "inferdash": inferdash, "engine": engine},
        parts={"paste": number_lines(redacted.split("\n"))},
    )
    parts = {
        **report.parts,
        "read as": number_lines(list_readings(report)),
        "notes": number_lines([redactor.redact(each) for each in _list_notes(report)]),
    }
    kept = {name: part for name, part in parts.items() if part}
    return Report(kind="paste", facts=report.facts, parts=kept)


def list_readings(report: Report) -> list[str]:
    """A JSON object for each launch that is read of the paste by now, or why it is refused."""
    try:
        return [
            json.dumps(_say_all(command), ensure_ascii=False)
            for command in paste.read(_text(report))
        ]
    except PasteError as error:
        return [f"refused: {error}"]


def find_refusal(report: Report) -> PasteError | None:
    """The error of a paste that is not read at all; None: it is."""
    try:
        paste.read(_text(report))
    except PasteError as error:
        return error
    return None


def _text(report: Report) -> str:
    return "\n".join(report.texts("paste")) + "\n"


def _find_keys(text: str) -> list[str]:
    """Values of --api-key and flags like it; vLLM takes several."""
    try:
        commands = paste.read(text)
    except PasteError:
        return []
    return [word for command in commands for word in secret_words(tuple(command.command))]


def _say_all(command: LaunchCommand) -> dict[str, object]:
    """Without what the paste does not say."""
    return {
        name: value
        for name, value in command.to_json().items()
        if value is not None and value is not False and value not in ([], {})
    }


def _list_notes(report: Report) -> Iterator[str]:
    """What the form would tell of each launch."""
    try:
        commands = paste.read(_text(report))
    except PasteError:
        return
    said = report.facts.get("engine", "")
    engine = cast(EngineKey, said) if said in ENGINES else None
    for number, command in enumerate(commands, start=1):
        before = f"launch {number}: " if len(commands) > 1 else ""
        try:
            made = draft(command, text=_text(report), engine=engine)
        except DraftError as error:
            yield f"{before}refused: {error}"
            continue
        yield from (f"{before}{each.kind}: {each.says}" for each in made.remarks)
