"""Wrapping that other tools put around the lines of a pasted log, and quotes of its lines.

A quote's "> ", a pager's line numbers, the name of a pod, another program's own log: one
such wrapping is on nearly every line, and no engine wrote it. See logtext for the prefixes that
engines, Docker and systemd write.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from servers.judge.logs import parsing
from servers.judge.logs.evidence import EvidenceLine

type Lines = list[tuple[int, str]]

_SAMPLE = 400  # lines by which a wrapping is recognised
_ENOUGH = 0.9  # of them have it
_DEEPEST = 3

_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"[>\u2502|] ?",
        r"\[pod/[\w./-]{1,200}\] ",
        # RunPod
        r"[\w-]{4,60}\[(?:info|error|warning|debug)\]",
        # pm2 logs
        r"\d{1,4}\|[\w.@-]{1,60} {0,20}\| ?",
        # journalctl -o short-iso and short-precise
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?[+-]\d\d:?\d\d [\w.-]{1,64} [\w.@-]{1,64}\[\d{1,9}\]: ",
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\.\d{1,9} [\w.-]{1,64} [\w.@-]{1,64}\[\d{1,9}\]: ",
        # Python's logging, by a program that started the engine and repeats what it says
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,.]\d{3} - [\w.]{1,80} - (?:DEBUG|INFO|WARNING|ERROR) - ",
        # Lemonade
        r"(?:DEBUG|INFO): {1,8}LLAMA SERVER(?: \w{1,20})?:(?: |$)",
        # syslog
        r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,64} [\w.@/-]{1,64}: ",
        # ts, Go's log, dashboards and collectors of logs
        r"\[?(?:[A-Z][a-z]{2} [ \d]\d|\d{4}/\d\d/\d\d) \d\d:\d\d:\d\d(?:\.\d{1,9})?\]? "
        r"(?![\w.-]{1,64} [\w.@-]{1,64}\[\d{1,9}\]: )",
        r"\[?\d\d:\d\d:\d\d(?:\.\d{1,9})?\]? ",
        # A day without its year and the time, with nothing between them and the line.
        r"\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3}(?! ?\[(?!\d{4}-))",
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?:\t|  )",
        # mpirun --tag-output and srun --label
        r"\[\d{1,4},\d{1,4}\]<std(?:out|err)>: ?",
        r" {0,3}\d{1,4}: ",
        r"[A-Za-z][\w.-]{0,99} {0,40}\| ?",
    )
)
# Google Cloud's and other explorers of logs. No engine writes so: one line is enough.
_EXPLORER = re.compile(
    r"(?:(?:DEFAULT|DEBUG|INFO|NOTICE|WARNING|ERROR|CRITICAL) )?"
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z \[[\w.]{1,60}: [^\]]{1,120}\] ?"
)
_NUMBER = re.compile(r"\s{0,8}(?P<number>\d{1,7})(?:\t|: ?| ?[|\u2502] ?| )")
_BRACKET = re.compile(r"\[[A-Za-z][\w ./:-]{0,80}\] ")
_NAMES = re.compile(r"[A-Za-z][\w./-]{2,120}(?: [A-Za-z][\w.-]{0,60})? ")
_FENCE = re.compile(
    r"\s*(?:(?:```|~~~)\s*\w{0,20}|</?(?:details|summary|pre|code)\b[^<>]{0,80}>)\s*"
)
# Go's slog and logrus: time="…" level=info msg="…" component=vllm
_LOGFMT = re.compile(
    r'(?:time|ts|t)="?[\dT:.+Z-]{10,40}"? (?:[\w.]{1,40}=\S{1,80} ){0,6}msg=(?P<said>"(?:[^"\\]|\\.){0,8000}"|\S{0,400})'
)
_SAID = ("log", "message", "MESSAGE", "msg")


def unwrap(lines: Lines) -> Lines:
    """The same lines under the same numbers; those that only wrap are empty."""
    lines = _strip_fences(lines)
    for _ in range(_DEEPEST):
        sample = [text for _number, text in lines if text.strip()][:_SAMPLE]
        take = _taker(sample) if sample else None
        if take is None:
            break
        lines = [(number, take(text)) for number, text in lines]
    return lines


def _strip_fences(lines: Lines) -> Lines:
    """Without the fences and tags before the first line of the log, and after the last."""
    kept = list(lines)
    for order in (range(len(kept)), range(len(kept) - 1, -1, -1)):
        for at in order:
            number, text = kept[at]
            if text.strip() and not _FENCE.fullmatch(text):
                break
            kept[at] = (number, "")
    return kept


def _taker(sample: list[str]) -> Callable[[str], str] | None:
    for read_said in (_said_in_json, _said_in_logfmt):
        if _most(read_said(text) is not None for text in sample):
            return _build_reader(read_said)
    if _most(_EXPLORER.match(text) for text in sample):
        return _build_stripper(_EXPLORER)
    if len(sample) < 3:
        return None
    indent = min(len(text) - len(text.lstrip(" \t")) for text in sample)
    if indent:
        return lambda text: text[indent:] if not text[:indent].strip() else text
    for pattern in _PATTERNS:
        if _most(pattern.match(text) for text in sample):
            return _build_stripper(pattern)
    if _is_counted(sample):
        return _build_stripper(_NUMBER)
    return _find_name_stripper(sample)


def _most(have: Iterable[object]) -> bool:
    told = [bool(each) for each in have]
    return sum(told) >= _ENOUGH * len(told)


def _build_stripper(pattern: re.Pattern[str]) -> Callable[[str], str]:
    return lambda text: pattern.sub("", text, count=1) if pattern.match(text) else text


def _build_reader(read_said: Callable[[str], str | None]) -> Callable[[str], str]:
    return lambda text: text if (said := read_said(text)) is None else said


def _said_in_logfmt(text: str) -> str | None:
    found = _LOGFMT.match(text)
    if found is None:
        return None
    said = found["said"]
    try:
        return str(json.loads(said)) if said.startswith('"') else said
    except ValueError:
        return said.strip('"')


def _said_in_json(text: str) -> str | None:
    """Docker's own files, journalctl -o json, and collectors of logs."""
    if not text.startswith("{"):
        return None
    try:
        told = json.loads(text)
    except ValueError:
        return None
    said = next((told[name] for name in _SAID if name in told), None)
    return said.rstrip("\r\n") if isinstance(said, str) else None


def _is_counted(sample: list[str]) -> bool:
    numbers = [int(found["number"]) for text in sample if (found := _NUMBER.match(text))]
    steps = sum(
        after - before in (1, 2) for before, after in zip(numbers, numbers[1:], strict=False)
    )
    return len(numbers) >= _ENOUGH * len(sample) and steps >= _ENOUGH * (len(numbers) - 1)


def _find_name_stripper(sample: list[str]) -> Callable[[str], str] | None:
    """One word or two that begin nearly every line, and that no engine writes."""
    for pattern in (_BRACKET, _NAMES):
        words = Counter(found[0] for text in sample if (found := pattern.match(text)))
        for word, times in words.most_common(1):
            rest = [text.removeprefix(word) for text in sample if text.startswith(word)]
            if times < _ENOUGH * len(sample) or any(map(_is_known, sample)):
                continue
            if sum(map(_is_known, rest)) * 3 >= len(rest):
                return _build_stripper(re.compile(re.escape(word)))
    return None


def _is_known(text: str) -> bool:
    return parsing.read(text).text != text


MOST_EVIDENCE = 6
LONGEST_EVIDENCE = 600  # characters


@dataclass(frozen=True, kw_only=True)
class Evidence:
    line: int  # counted from 1; 0: Docker's words, not the log's
    text: str


def pick(lines: list[EvidenceLine]) -> list[EvidenceLine]:
    """The first ones, and the last."""
    return [*lines[: MOST_EVIDENCE - 1], *lines[-1:]]


def quote_lines(lines: list[EvidenceLine], *, most: int = MOST_EVIDENCE) -> tuple[Evidence, ...]:
    """Each text once, in the log's order."""
    texts: dict[str, EvidenceLine] = {}
    for line in lines:
        texts.setdefault(line.text.strip(), line)
    chosen = sorted(list(texts.values())[:most], key=lambda line: line.position)
    return tuple(Evidence(line=line.number, text=cut(line.text.strip())) for line in chosen)


def cut(text: str, most: int = LONGEST_EVIDENCE) -> str:
    """At most so many characters, and none that a database or a terminal cannot bear."""
    text = "".join(
        each if each.isprintable() or each == "\t" else "\ufffd" for each in text[: most + 1]
    )
    return text if len(text) <= most else text[: most - 1] + "…"
