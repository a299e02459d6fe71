"""Comments of a paste, beside the flag or variable that they explain."""

import re
from collections.abc import Collection

# "# --tp: two cards", as inferdash itself writes it.
_NAMED = re.compile(r"\s*#+\s*(--?[A-Za-z][\w.-]*|[A-Z_][A-Z0-9_]*):\s+(\S.*)")
_ALONE = re.compile(r"\s*#+!?\s*(.*)")
_BEHIND = re.compile(r"(?<=[\s\\\"')])#\s*([^#'\"]+)$")
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
        behind = _BEHIND.search(line)
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
