"""Parsing of log lines: colours, prefixes, levels, and patterns that a log must hold."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

# CSI sequences (colours, cursor moves), OSC (titles, links) and lone escapes.
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])")

# Those that are whole: one that its line does not end would take with it what follows.
_WHOLE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)|[@-Z\\^_])")
# C0 but the tab and the line's end, C1 (8-bit sequences), what turns the direction of writing or
# ends a line elsewhere; as inferdash.terminal.show has it, which needs Python alone.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)

# Characters of a line that are looked at. Whatever an engine tells of itself is shorter.
LONGEST = 4096

_BREAKS = re.compile(r"[\r\n]+")
_MOST_PREFIXES = 8

_LEVELS = r"DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL"
_LEVEL_OF_LETTER = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "T": "DEBUG"}
_SAME_LEVEL = {"WARN": "WARNING", "FATAL": "CRITICAL"}

# docker compose: "sglang-1  | ", set off by two spaces at least. With one it may be the cell
# of a table, and counts only where another prefix follows.
_COMPOSE = re.compile(r"[A-Za-z0-9][\w.-]{0,99}?(?:(?P<sure>[-_]\d{1,3} {0,40}| {2,40})| ?)\| ?")
# docker logs --timestamps, kubectl logs --timestamps, and the files of containerd.
_STAMP = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))"
    r"(?: std(?:out|err) [FP])? "
)
# journalctl: "Nov 21 10:00:00 spark-1 docker[812]: "
_JOURNAL = re.compile(
    r"(?P<at>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) [\w.-]{1,64} [\w.@-]{1,64}\[\d{1,9}\]: "
)
# SGLang: "[2026-03-30 14:21:44 DP0 TP1] "
_SGLANG = re.compile(
    r"\[(?P<at>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?)"
    r"(?P<rank>(?: (?:DP|PP|ATTN_CP|MOE_DP|ATTN_DP|TP|EP)\d{1,4}){0,6})\] ?"
)
# vLLM: "(EngineCore_DP0 pid=212) ", "(VllmWorker rank=1 pid=77) "; Ray: "(RayWorkerWrapper
# pid=77, ip=10.0.0.2) " and what it says of lines that it has folded.
_PROCESS = re.compile(
    r"\((?P<name>[A-Za-z][\w:.-]{0,60})?(?P<more>(?: ?[\w=]{1,40}){0,3}?) ?pid=(?P<pid>\d{1,9})"
    r"(?:, ip=(?P<ip>[0-9A-Fa-f.:]{2,45}))?\)(?: \[repeated [^\]]{0,200}\])? ?"
)
# torchrun and torch's own: "[rank3]: "
_TORCH = re.compile(r"\[(?P<rank>rank\d{1,4})\]: ?")
# vLLM-Omni: "[Stage-0] "
_STAGE = re.compile(r"\[(?P<rank>Stage-\d{1,4})\] ?")
# vLLM: "INFO 11-21 10:00:00 [core.py:12] ", and before 0.8 "INFO 11-21 10:00:00 core.py:12] "
_VLLM = re.compile(
    rf"(?P<level>{_LEVELS}) (?P<at>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?) "
    r"(?:\[?[\w./-]{1,200}:\d{1,6}\] ?)?"
)
# Python's logging as FlashInfer sets it up: "2026-05-30 07:47:00,209 - INFO - x.py:6 - y: "
_PYTHON = re.compile(
    rf"(?P<at>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d{{3}}) - (?:[\w.]{{1,80}} - )?"
    rf"(?P<level>{_LEVELS}) - (?:[\w./-]{{1,200}}:\d{{1,6}} - )?(?:[\w.]{{1,80}}: )?"
)
# loguru and programs like it: "2025-03-05 08:58:54 | ERROR | stderr | "
_PIPES = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) ?\| "
    rf"(?P<level>{_LEVELS}) {{0,10}}\| (?:[\w.:<>-]{{1,120}} (?:\||-) )?"
)
# Docker Desktop and wrappers: "2025-03-05 08:58:54 "
_TIME = re.compile(r"(?P<at>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,6})?) (?!- )")
# uvicorn: "INFO:     "
_UVICORN = re.compile(rf"(?P<level>{_LEVELS}): {{1,8}}")
# llama.cpp: "0.00.608.103 I "
_LLAMA = re.compile(r"(?P<at>\d{1,6}\.\d\d\.\d{3}\.\d{3}) (?P<letter>[IWEDT]) ")
# llama.cpp's part of the program: "srv  llama_server: ", whose function stays in the text.
_LLAMA_PART = re.compile(r"(?:srv|slot|cmn|que|res) {1,6}(?=[A-Za-z_]\w{0,80}(?::| is ))")

_PREFIXES = (
    _STAMP,
    _SGLANG,
    _PROCESS,
    _VLLM,
    _UVICORN,
    _LLAMA,
    _LLAMA_PART,
    _PYTHON,
    _PIPES,
    _TIME,
    _TORCH,
    _STAGE,
    _JOURNAL,
)
_RANK_IN_NAME = re.compile(r"(?:ATTN_|MOE_)?(?:DP|PP|CP|TP|EP)\d{1,4}|rank=\d{1,4}")


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedLine:
    text: str  # without prefixes, at most LONGEST characters
    rank: str = ""  # "DP0 TP1", "rank3", "10.0.0.2 pid 77"; "": the only or the main process
    level: str = ""  # DEBUG, INFO, WARNING, ERROR or CRITICAL; "": the line names none
    at: str = ""  # as written, the outermost time of the line; "": the line has none


def plain(line: str) -> str:
    """The line without terminal sequences."""
    return ANSI.sub("", line) if "\x1b" in line else line


def safe(text: str) -> str:
    """Any text without terminal sequences, and with a sign for each other character that a
    terminal would obey: what is in a file is looked at with cat."""
    return _HARMFUL.sub(_sign, _WHOLE.sub("", text))


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    return chr(0x2400 + code) if code < 0x20 else "\N{REPLACEMENT CHARACTER}"


def pieces(line: str) -> Iterator[str]:
    """What a stored line shows one after the other: progress bars redraw it with \\r.

    Without terminal sequences, empty ones left out, each at most LONGEST characters.
    """
    line = plain(line)
    if "\r" not in line and "\n" not in line:
        if line:
            yield line[:LONGEST]
        return
    for piece in _BREAKS.split(line):
        if piece:
            yield piece[:LONGEST]


def read(piece: str) -> ParsedLine:
    """Take the prefixes off one of pieces(). Never fails: what is no prefix stays in the text."""
    text = piece[:LONGEST]
    found = _COMPOSE.match(text)
    if found and (found["sure"] or _starts_with_prefix(text[found.end() :])):
        text = text[found.end() :]
    rank = level = at = ""
    for _ in range(_MOST_PREFIXES):
        match = _prefix(text)
        if match is None:
            break
        text = text[match.end() :]
        groups = match.groupdict()
        at = at or groups.get("at") or ""
        level = groups.get("level") or _LEVEL_OF_LETTER.get(groups.get("letter") or "", level)
        rank = _rank(groups) or rank
    return ParsedLine(text=text, rank=rank, level=_SAME_LEVEL.get(level, level), at=at)


def parse_line(line: str) -> list[ParsedLine]:
    """Everything that a stored line says: pieces() without their prefixes."""
    return [read(piece) for piece in pieces(line)]


def _prefix(text: str) -> re.Match[str] | None:
    for pattern in _PREFIXES:
        if match := pattern.match(text):
            return match
    return None


def _starts_with_prefix(text: str) -> bool:
    return _prefix(text) is not None


def _rank(groups: dict[str, str | None]) -> str:
    if "pid" not in groups:
        return (groups.get("rank") or "").strip()
    named = _RANK_IN_NAME.findall(f"{groups['name'] or ''} {groups['more'] or ''}")
    if named:
        return " ".join(each.replace("=", "") for each in named)
    # Ray's workers have no name of their own.
    return f"{groups['ip']} pid {groups['pid']}" if groups["ip"] else ""


@dataclass(frozen=True, kw_only=True)
class LogPatternRemark:
    text: str
    line: int | None  # where it stands although it must not; None: it is missing


def search_patterns(lines: Iterable[tuple[int, str]], texts: Collection[str]) -> dict[str, int]:
    """The number of the first line that holds each of the texts; those that none holds are left out.

    Upper and lower case are the same, and colours are not looked at.
    """
    open_ones = {text.lower(): text for text in texts}
    found: dict[str, int] = {}
    for number, line in lines:
        if not open_ones:
            break
        lowered = plain(line).lower()
        for wanted in [each for each in open_ones if each in lowered]:
            found[open_ones.pop(wanted)] = number
    return found


def find_pattern_remarks(
    must: Iterable[str], must_not: Iterable[str], found: Mapping[str, int]
) -> tuple[LogPatternRemark, ...]:
    """What is there and must not be, with its line, and then what is missing."""
    there = [LogPatternRemark(text=text, line=found[text]) for text in must_not if text in found]
    return (*there, *(LogPatternRemark(text=text, line=None) for text in must if text not in found))


_NAMED: dict[str, "Level"]


class Level(IntEnum):
    INFO = 1
    WARNING = 2
    ERROR = 3


_NAMED = {
    "DEBUG": Level.INFO,
    "INFO": Level.INFO,
    "WARNING": Level.WARNING,
    "ERROR": Level.ERROR,
    "CRITICAL": Level.ERROR,
}

# Lines without one of these, in lower case, are no worse than INFO: most of a log, looked at fast.
_HINTS = ("warn", "error", "exception", "critical", "fatal", "traceback", "killed", "segfault")

_TRACEBACK = "Traceback (most recent call last)"
# Python's own last words ("torch.OutOfMemoryError: CUDA …", "KeyError"), other programs' and the
# kernel's first ones.
_ERROR = re.compile(
    r"^(?:[\w.]{0,120}(?:Error|Exception|Exit|Interrupt)(?::|$)"
    r"|(?:fatal |internal |runtime )?error\b|fatal\b|critical\b|killed\b|segmentation fault"
    r"|\*\*\* \w{0,40} ?error)|\berror: |: error\b|\[error\]|\bllama_\w{0,60}: failed\b",
    re.IGNORECASE,
)
_WARNING = re.compile(r"^(?:warn(?:ing)?\b)|\bwarning: |\[warn(?:ing)?\]|\w{1,60}Warning: ", re.I)


def may_be_bad(lowered: str) -> bool:
    """Whether some lines, in lower case and together, may hold a warning or an error."""
    return any(hint in lowered for hint in _HINTS)


def level(line: str) -> Level:
    """The worst of what one stored line says; a line that says nothing of it is INFO."""
    return max(map(_parse_level, parse_line(line)), default=Level.INFO)


def _parse_level(said: ParsedLine) -> Level:
    if said.level:
        return _NAMED.get(said.level, Level.INFO)
    if not may_be_bad(said.text.lower()):
        return Level.INFO
    text = said.text.lstrip()
    if _TRACEBACK in text or _ERROR.search(text):
        return Level.ERROR
    return Level.WARNING if _WARNING.search(text) else Level.INFO


def levels(lines: Iterable[str]) -> Iterator[Level]:
    """The level of each of these lines, which follow each other.

    What is indented under the first line of a traceback is part of that error.
    """
    in_traceback = False
    for line in lines:
        if in_traceback and (line[:1].isspace() or not line):
            yield Level.ERROR
            continue
        found = level(line) if in_traceback or may_be_bad(line.lower()) else Level.INFO
        in_traceback = _TRACEBACK in line
        yield found
