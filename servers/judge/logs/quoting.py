"""Quotes of a log: the lines that a diagnosis shows as its evidence."""

from dataclasses import dataclass

from servers.judge.logs.evidence import EvidenceLine

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
