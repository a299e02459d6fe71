"""Lines of a paste: continuations, kinds, comments."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from servers.launch.commandline import docker_run, tokens
from servers.launch.commandline.docker_options import TOOLS
from servers.launch.commandline.engine_words import engine_start, wrappers
from servers.launch.commandline.shell import END
from servers.launch.commandline.text_boxes import VARIABLE, WordsError
from servers.launch.commandline.tokens import Operator, Token, Word
from servers.launch.engines import flaghelp
from servers.launch.engines.flaghelp import FlagRow, Flags
from servers.launch.tables import read_table

_TOOL = r"(?:nvidia-docker|docker|podman|nerdctl)(?:\.exe)?"
# A launch anywhere in a text; matched at a place it must begin there.
LAUNCH = re.compile(
    rf"(?:[\w./~${{}}\\-]{{0,200}}[/\\])?{_TOOL}\s+(?:-\S+\s+(?:[^-\s]\S*\s+)?)*(?:container\s+)?(?:run|create)\b"
    r"|(?:[\w./~${}\\-]{0,200}[/\\])?(?:vllm|sglang)(?:@[\w.]+)?\s+serve\b"
    r"|\S{0,200}(?:python[\d.]*|\$\{?\w*\}?)[\"']?\s+(?:-\w+\s+)*-m\s*(?:vllm\.entrypoints|sglang\.launch|sglang\.cli)"
    r"|\S{0,200}(?:vllm/entrypoints/\S*api_server|sglang/launch_server)\.py"
    r"|(?:[\w./~${}\\-]{0,200}[/\\])?llama-server(?:\.exe)?(?=\s|$)"
    r"|[\w./~${}-]{0,200}llama\.cpp/[\w./-]{0,100}bin/server(?=\s)"
)
_NAMES = re.compile(
    r"docker|podman|nerdctl|vllm|sglang|llama-server|llama\.cpp"
)  # one is in every launch
_BEHIND = re.compile(
    rf"(?:&&|;)\s*(?:sudo\s+|nohup\s+|exec\s+|[A-Z_]+=\S+\s+)*(?:{LAUNCH.pattern})"
)
_ASSIGNMENT = re.compile(
    r"(?:(?:export|declare|typeset|local|readonly)\s+(?:-\w+\s+)*)?[A-Za-z_]\w*(?:\[\w*\])?\+?=(?![=>])"
)
_TABLE = {name: frozenset(words.split()) for name, words in read_table(__file__).items()}
PROGRAMS = _TABLE["programs"]
OTHERS = _TABLE["others"]
_DOS_START = re.compile(r"start\s+(?:\"|/\w)", re.IGNORECASE)
_FIRST = re.compile(r"[^\s;&|]+")
_PATH = re.compile(r"(?:\.{1,2}|~|[A-Za-z]:)?[\w.-]*[/\\][\w./\\-]+$|[\"']?\$")

_KIND_SENTENCE = _TABLE["in_sentences"]


class LineKind(Enum):
    LAUNCH = "a program that may start an engine"
    ASSIGNMENT = "a variable is set"
    OTHER = "another command"
    PROSE = "no command"


def launch_in(text: str) -> re.Match[str] | None:
    """The first launch anywhere in a text."""
    if _NAMES.search(text) is None:
        return None
    # It is looked for at every letter, as far ahead as the word goes on.
    tokens.spend_step(1 + sum(len(word) * min(len(word), 200) for word in text.split()) // 8)
    return LAUNCH.search(text)


def start_of(line: str) -> LineKind:
    """What the line begins with, prompts and bullets taken off before."""
    line = line.lstrip(" \t({!&")
    first = _FIRST.match(line)
    if first is None or line.startswith(("#", "\0")):
        return LineKind.PROSE
    if _NAMES.search(line):
        tokens.spend_step(40 * (line.count("&&") + line.count(";")))
        if _BEHIND.search(line):
            return LineKind.LAUNCH
    if _ASSIGNMENT.match(line):
        return LineKind.ASSIGNMENT
    word = first[0]
    if word in PROGRAMS or _PATH.match(word.strip("\"'")) or word[0] == "$":
        return LineKind.PROSE if is_prose(line) else LineKind.LAUNCH
    if word in OTHERS or _DOS_START.match(line) or re.match(r"\w+\(\)", word):
        return LineKind.OTHER
    return LineKind.PROSE


def is_prose(line: str) -> bool:
    """Whether a line that begins like a command is a sentence about it."""
    words = line.split()
    if _KIND_SENTENCE.intersection(words[2:3]):
        return True
    if len(words) < 4 or any(word.startswith("-") for word in words):
        return False
    if _KIND_SENTENCE.intersection(words[1:]):
        return True
    return words[-1][-1] in ".:!?,;" and not any("/" in word or "=" in word for word in words[1:])


def begins_other(words: list[str]) -> bool:
    """Whether these words are what guides do after a launch: docker logs …, curl http://…"""
    following = words[1] if len(words) > 1 else ""
    if words and words[0] in TOOLS:
        return following in ("logs", "ps", "stop", "rm", "exec", "pull")
    return (
        bool(words)
        and words[0] == "curl"
        and re.match(r"['\"]?(?:https?:|-)", following) is not None
    )


_OPTION = re.compile(r"[-–—−]{1,2}[A-Za-z]")
_IMAGE_LIKE = re.compile(r"\S*[/:$<]\S*|\S+$")
_SENTENCE = re.compile(r"[A-Z][a-z']*,?(?:\s[^\s-]\S*){2,}[.:!?]\s*$")
_CHECKPOINT = re.compile(r"[\w-][\w.-]*/[\w.-]+$")
# A key of YAML, or the end of a text of Python.
_NO_VALUE = re.compile(r"\s*(?:[\w.\"-]+:(?:\s|$)|\"\"\"|\'\'\')")
_NEAR = 200  # characters that a launch may have before the line end that was looked at last
_TOOLS = ("docker", "podman", "nerdctl", "docker-compose")


class LineEnds:
    """Answers the lexer's question at each line end of one logical line."""

    def __init__(self, text: str, offset: int) -> None:
        self._text = text
        self._offset = offset
        self._launches = False
        self._searched = offset
        self._has_wrapped = False
        self._is_spaced = False  # a page put a blank line after each of its lines

    def goes_on(self, tokens: list[Token], offset: int, escaped: bool) -> int | None:
        """Where the command goes on; None where it ends.

        Comments between the lines of a command are skipped. A blank line ends it, unless a
        backslash came before it and an option follows.
        """
        at, after_blank = self._next_line(offset)
        line = self._line(at)
        if not line.strip() or line.lstrip()[0] == END:
            return None
        if tokens and isinstance(tokens[-1], Operator) and tokens[-1].text in ("&&", "||", "|"):
            return at
        is_launch = self._is_launch(offset)
        if escaped and (not after_blank or self._is_spaced):
            return None if is_launch and self._begins_another(tokens, line) else at
        if not is_launch or (after_blank and not escaped):
            return None
        if _OPTION.match(line.lstrip()) or self._is_incomplete(tokens, line):
            self._has_wrapped = True
            self._is_spaced = self._is_spaced or after_blank
            return at
        return None

    def _is_launch(self, offset: int) -> bool:
        if not self._launches:
            start = max(self._offset, self._searched - _NEAR)
            self._launches = launch_in(self._text[start:offset]) is not None
            self._searched = offset
        return self._launches

    def _next_line(self, offset: int) -> tuple[int, bool]:
        """The next line that says something, and whether a blank one stands before it."""
        after_blank = False
        while offset < len(self._text):
            line = self._line(offset).strip()
            if line and not line.startswith("#"):
                break
            after_blank = after_blank or not line
            offset += len(self._line(offset)) + 1
        return offset, after_blank

    def _line(self, offset: int) -> str:
        stop = self._text.find("\n", offset)
        return self._text[offset : len(self._text) if stop < 0 else stop]

    def _begins_another(self, tokens: list[Token], line: str) -> bool:
        """Whether a line after a last, superfluous backslash is a command of its own."""
        if line[0] in " \t" or _OPTION.match(line):
            return False
        if _SENTENCE.match(line):
            return True
        first = line.split()[0]
        if first in _TOOLS or start_of(line) is LineKind.ASSIGNMENT:
            return len(self._words(tokens)) > 1
        if first in OTHERS or first in ("pip", "nvidia-smi"):
            return True
        return LAUNCH.match(line) is not None and engine_start(self._words(tokens)) is not None

    def _is_incomplete(self, tokens: list[Token], line: str) -> bool:
        """Whether a line without a backslash lacks what the next one has."""
        words = self._words(tokens)
        indented = line[0] in " \t"
        following = line.split()
        if _NO_VALUE.match(line):
            return False
        is_docker = docker_run.start(words) is not None
        if is_docker and docker_run.lacks_image(words):
            return indented or _IMAGE_LIKE.match(line) is not None
        if is_docker and indented and self._has_wrapped:
            return True
        is_plain = start_of(line) is LineKind.PROSE or _CHECKPOINT.match(following[0])
        if not is_plain and following[0][0] not in "'\"/~$":
            return False
        started = engine_start(words)
        lacks_value = bool(words) and words[-1].startswith("--") and "=" not in words[-1]
        lacks_model = started is not None and started[1] == len(words)
        is_value = indented or len(following) == 1 or _OPTION.match(following[1]) is not None
        return (lacks_value or lacks_model) and (is_value or following[0][0] in "'\"")

    def _words(self, tokens: list[Token]) -> list[str]:
        """The words of the command that is being read, as typed."""
        words: list[str] = []
        for token in tokens:
            if isinstance(token, Operator):
                words = []
            elif isinstance(token, Word):
                words.append(self._text[token.offset : token.end].strip("\"'"))
        return words[wrappers(words) :]


# "# --tp: two cards", as inferdash itself writes it.
_NAMED = re.compile(r"\s*#+\s*(--?[A-Za-z][\w.-]*|[A-Z_][A-Z0-9_]*):\s+(\S.*)")
_ALONE = re.compile(r"\s*#+!?\s*(.*)")
_BEHIND_COMMENT = re.compile(r"(?<=[\s\\\"')])#\s*([^#'\"]+)$")
_NAME = re.compile(r"(?<![\w$/{.-])(--?[A-Za-z][\w.-]*|[A-Z_][A-Z0-9_]*(?==))")
# A line that sets something although it begins with #: it was commented out, and says nothing.
_COMMENTED_OUT = re.compile(r"(?:--?[A-Za-z]|export\s|[A-Z_]+=|docker\s|vllm\s|python|sglang\s)")


def reasons(text: str, names: Collection[str]) -> dict[str, str]:
    """For each of these flags and variables what the paste's comments say about it.

    A comment belongs to the first name on its own line; where it has the line for itself, to the
    first one on the line below.
    """
    found: dict[str, str] = {}
    above: list[str] = []
    for line in text.splitlines():
        if named := _NAMED.match(line):
            _keep(found, named[1], named[2], names)
            continue
        if line.lstrip().startswith("#"):
            said = (_ALONE.match(line) or [line, ""])[1].strip()
            above = [*above, said] if said and not _COMMENTED_OUT.match(said) else []
            continue
        behind = _BEHIND_COMMENT.search(line)
        code = line[: behind.start()] if behind else line
        on_line = [name for name in _NAME.findall(code) if name in names]
        if on_line:
            why = " ".join([*above, behind[1].strip() if behind else ""]).strip()
            _keep(found, on_line[0], why, names)
        above = []
    return found


def _keep(found: dict[str, str], name: str, why: str, names: Collection[str]) -> None:
    if why and name in names and name not in found:
        found[name] = why[:500]


_PREFIX = re.compile(r"^(?:export\s+|-e\s+|--env[ =])")


@dataclass(frozen=True, kw_only=True)
class Environment:
    values: dict[str, str]
    reasons: dict[str, str]  # variable -> why


def comment_flags(text: str) -> Flags:
    """As servers.launch.engines.flaghelp reads it. Raises WordsError."""
    try:
        return flaghelp.flags(text)
    except ValueError as error:
        raise WordsError(str(error)) from None


def comment_environment(text: str) -> Environment:
    """NAME=value lines; `export` and `-e` in front and quotation marks around are taken off.

    Raises WordsError for a line without =, a bad name, or a name that comes twice.
    """
    values: dict[str, str] = {}
    reasons: dict[str, str] = {}
    above: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip().removesuffix("\\").rstrip()
        if not line or line.startswith("#"):
            above = [*above, line.lstrip("# ").rstrip()] if line else []
            continue
        name, value, comment = _assignment(line, number)
        if name in values:
            raise WordsError(f"Line {number}: {name} is set twice.")
        values[name] = value
        if why := " ".join([*above, comment]).strip():
            reasons[name] = why
        above = []
    return Environment(values=values, reasons=reasons)


def environment_text(values: Mapping[str, str], reasons: Mapping[str, str]) -> str:
    """NAME=value lines with their reasons; `environment` reads them back."""
    return "\n".join(map(str, variable_rows(values, reasons)))


def variable_rows(values: Mapping[str, str], reasons: Mapping[str, str]) -> list[FlagRow]:
    return [
        FlagRow(text=f"{name}={_quote_value(value)}", why=reasons.get(name, ""))
        for name, value in values.items()
    ]


def _assignment(line: str, number: int) -> tuple[str, str, str]:
    name, equals, rest = _PREFIX.sub("", line).partition("=")
    if not equals:
        raise WordsError(f"Line {number}: “{line[:60]}” is not NAME=value.")
    if not VARIABLE.match(name):
        raise WordsError(f"Line {number}: “{name[:60]}” is not a name for a variable.")
    quoted = re.match(r"""(['"])(.*?)\1(?:\s+#\s*(.*))?\Z""", rest)
    if quoted is not None:
        return name, quoted[2], (quoted[3] or "").strip()
    value, _hash, comment = rest.partition(" #")
    return name, value.rstrip(), comment.strip()


def _quote_value(value: str) -> str:
    """Only where the bare value would be read as something else."""
    is_misread = " #" in value or value != value.strip() or value[:1] in "'\"" or value[-1:] == "\\"
    if not value or not is_misread:
        return value
    return f"'{value}'" if '"' in value else f'"{value}"'
