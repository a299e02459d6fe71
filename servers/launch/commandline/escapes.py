"""Signs inside a word: what they stand for in a shell, and in pastes that are none of a shell."""

import re

_PLACEHOLDER = re.compile(r"<(?=[^\s<>&|;=])[^<>&|;\n]*?(?<!\s)>")
_TEMPLATE = re.compile(r"\{\{[^{}\"'\n]*\}\}")  # of Jinja, just and their kin
_PERCENT_NAME = re.compile(r"%(?![0-9A-Fa-f]{2}%)([A-Za-z_]\w+)%")
_QUOTED_COMMENT = re.compile(r"`\s*#[^`\n]*`")  # a comment between options, as bash allows it
_ARROW = re.compile(r"(?:<[-=]{1,2}|[←⬅]\ufe0f?)\s")
_ANSI_C = re.compile(r"\$'((?:[^'\\\0]|\\.)*)'", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_WINDOWS_PATH = re.compile(r"^(?:[\w-]+=)?(?:[A-Za-z]:|\.{1,2}|\$env:\w+|%\w+%)(?:\\[\w .%-]*)*$")
_WINDOWS_PROGRAM = re.compile(r"[\w.-]+(?:\\[\w.-]+)+\.exe\b", re.IGNORECASE)


def placeholder(text: str, at: int) -> re.Match[str] | None:
    """A blank to be filled in that is one word: <your token>, {{ model }}."""
    return _PLACEHOLDER.match(text, at) or _TEMPLATE.match(text, at)


def percent_name(text: str, at: int) -> re.Match[str] | None:
    """A variable of cmd, %NAME%; its name is the match's first group."""
    return _PERCENT_NAME.match(text, at)


def quoted_comment(text: str, at: int) -> re.Match[str] | None:
    """A comment between a command's options, as bash allows it in backticks."""
    return _QUOTED_COMMENT.match(text, at)


def in_windows_path(text: str, start: int, at: int) -> bool:
    """Whether the backslash at `at` parts folders, in a word that begins at `start`."""
    program = _WINDOWS_PROGRAM.match(text, start)
    if program is not None and at < program.end():
        return True
    return _WINDOWS_PATH.search(text[start:at]) is not None


def arrow(text: str, at: int) -> bool:
    """Whether a remark begins here that points back at the command: <- this one works."""
    return _ARROW.match(text, at) is not None


def ansi_c(text: str, at: int) -> tuple[str, int] | None:
    """What $'text' with its \\n stands for, and where it ends; None if it is never closed."""
    match = _ANSI_C.match(text, at)
    if match is None:
        return None
    said = re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), match[1], flags=re.DOTALL)
    return said, match.end()
