"""A strict reader of Prometheus' text format 0.0.4: it refuses what Prometheus would."""

import re
from dataclasses import dataclass, field

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_HELP = re.compile(rf"# HELP ({NAME}) ((?:[^\\\n]|\\\\|\\n)*)")
_TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram|summary|untyped)")
_PAIR = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
_SAMPLE = re.compile(
    rf"({NAME})(?:\{{({_PAIR}(?:,{_PAIR})*)\}})? "
    r"(NaN|[+-]Inf|-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?)"
)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

type Labels = frozenset[tuple[str, str]]


@dataclass
class Metric:
    kind: str
    help: str
    series: dict[Labels, float] = field(default_factory=dict)

    def of(self, **labels: str) -> float:
        """The value of the one series that has these labels among its own."""
        wanted = set(labels.items())
        found = [value for key, value in self.series.items() if wanted <= set(key)]
        assert len(found) == 1, f"{len(found)} series with {labels} among {list(self.series)}"
        return found[0]


def read(text: str) -> dict[str, Metric]:
    """By name. Raises ValueError on the first line that is not as it must be."""
    found: dict[str, Metric] = {}
    if text and not text.endswith("\n"):
        raise ValueError("The last line does not end.")
    helps: dict[str, str] = {}
    current = ""
    for line in text.splitlines():
        if match := _HELP.fullmatch(line):
            if match[1] in helps:
                raise ValueError(f"Two HELP lines: {line}")
            helps[match[1]] = _unescaped(match[2])
        elif match := _TYPE.fullmatch(line):
            if match[1] in found:
                raise ValueError(f"Two TYPE lines: {line}")
            current = match[1]
            found[current] = Metric(kind=match[2], help=helps.get(current, ""))
        elif match := _SAMPLE.fullmatch(line):
            if match[1] != current:
                raise ValueError(f"Not together with its TYPE line: {line}")
            pairs = _LABEL.findall(match[2] or "")
            if len({name for name, _text in pairs}) != len(pairs):
                raise ValueError(f"A label twice: {line}")
            key = frozenset((name, _unescaped(said)) for name, said in pairs)
            if key in found[current].series:
                raise ValueError(f"A series twice: {line}")
            found[current].series[key] = float(match[3])
        else:
            raise ValueError(f"No line of the format: {line!r}")
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda match: _ESCAPES[match[0]], text)
