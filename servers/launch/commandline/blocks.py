"""Blocks of a paste: YAML, and shell commands."""

import re
from dataclasses import dataclass

from servers.launch.commandline.compose import SERVICE_KEYS, TOP_LEVEL
from servers.launch.commandline.shell import END

_ANCHOR = re.compile(r"\s*(?:services\s*:\s*(?:#.*)?$|[\"']?image[\"']?\s*:\s*\S)")
_KEY = re.compile(r"(\s*)[\"']?(<<|[\w.-]+)[\"']?\s*:(?:\s+(.*))?$")
_HERE = re.compile(r"<<-?\s*(?:\\|[\"']?)(\w+)")


@dataclass(frozen=True, kw_only=True)
class Block:
    text: str
    first_line: int  # from 1
    is_yaml: bool


def split(text: str, first_line: int) -> list[Block]:
    """The paste in pieces, in order. YAML inside a here-document stays with its shell."""
    lines = text.split("\n")
    hidden = _here_documents(lines)
    found: list[Block] = []
    done = at = 0
    while at < len(lines):
        if at in hidden or not _ANCHOR.match(lines[at]) or _is_listed(lines, at):
            at += 1
            continue
        start, stop = _grow_block(lines, at, done, hidden)
        if start > done:
            found.append(_block(lines, done, start, first_line, is_yaml=False))
        found.append(_block(lines, start, stop, first_line, is_yaml=True))
        done = at = stop
    if done < len(lines):
        found.append(_block(lines, done, len(lines), first_line, is_yaml=False))
    return found


def _block(lines: list[str], start: int, stop: int, first_line: int, *, is_yaml: bool) -> Block:
    return Block(text="\n".join(lines[start:stop]), first_line=first_line + start, is_yaml=is_yaml)


def _is_listed(lines: list[str], number: int) -> bool:
    """Whether a key belongs to a list's item: a container of Kubernetes, not a service."""
    above = (line for line in reversed(lines[:number]) if line.strip())
    nearest = next((line for line in above if _indent(line) < _indent(lines[number])), "")
    return nearest.lstrip().startswith("- ") and ":" in nearest


def _here_documents(lines: list[str]) -> set[int]:
    """The numbers of the lines inside here-documents."""
    hidden: set[int] = set()
    last = {line.strip(): number for number, line in enumerate(lines)}
    end: str | None = None
    for number, line in enumerate(lines):
        if end is not None:
            hidden.add(number)
            end = None if line.strip() == end else end
        elif (match := _HERE.search(line)) is not None and last.get(match[1], 0) > number:
            end = match[1]
    return hidden


def _grow_block(lines: list[str], anchor: int, first: int, hidden: set[int]) -> tuple[int, int]:
    """The lines around an anchor that belong to the same YAML: first, and first behind."""
    base = _indent(lines[anchor])
    start = anchor
    for number in range(anchor - 1, first - 1, -1):
        line = lines[number]
        if number in hidden or line.startswith(END):
            break
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if _indent(line) <= base and not _is_key(line):
            break
        if _indent(line) > base and not _belongs_above(lines, number, first, base):
            break
        base = min(base, _indent(line))
        start = number
    stop = anchor + 1
    for number in range(anchor + 1, len(lines)):
        line = lines[number]
        if number in hidden or line.startswith(END):
            break
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if _indent(line) <= base and not (_is_key(line) or line.strip() in ("---", "...")):
            is_item = line.lstrip().startswith("- ") and _indent(line) == base
            if not is_item and line.strip() not in ("]", "}"):
                break
        stop = number + 1
    return start, stop


def _belongs_above(lines: list[str], number: int, first: int, base: int) -> bool:
    """Whether a deeper line has a key above it, at most as deep as the YAML's base."""
    for above in range(number, first - 1, -1):
        line = lines[above]
        if line.strip() and _indent(line) <= base:
            return _is_key(line)
    return True


def _is_key(line: str) -> bool:
    match = _KEY.match(line)
    if match is None:
        return False
    rest = (match[3] or "").strip()
    is_open = not rest or rest.startswith(("#", "&", "*", "|", ">", "!"))
    return (
        is_open
        or match[2] in SERVICE_KEYS | TOP_LEVEL
        or match[2] == "<<"
        or match[2].startswith("x-")
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
