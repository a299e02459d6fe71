"""Line continuations, also those that a web page broke."""

import re

from servers.launch.commandline import docker_run
from servers.launch.commandline.engine_words import engine_start, wrappers
from servers.launch.commandline.line_kinds import LAUNCH, OTHERS, LineKind, launch_in, start_of
from servers.launch.commandline.shell import END
from servers.launch.commandline.tokens import Operator, Token, Word

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
