"""Rules for metrics in engine logs: meters/*.yaml, one file an engine.

tokens   what the figures of tokens are of: all requests together, or one
rules    near: a plain text that the line holds. fields: figure -> pattern, searched from there on,
         whose group 1 it is. who: a pattern that tells the parts of an engine apart, whose figures
         are added up. scale: what a figure is multiplied by (percent are wanted).
         examples: lines that a test holds them to.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from servers.judge.logs.metrics import FIELDS, MetricRule
from servers.launch.tables import load_yaml

FOLDER = Path(__file__).with_name("meters")
_KEYS = {"id", "near", "fields", "who", "scale", "examples"}


class MeterError(Exception):
    """A file that cannot be used; the text names the file and what is wrong."""


@dataclass(frozen=True, kw_only=True)
class LogMetricMap:
    engine: str
    tokens: str
    rules: tuple[dict[str, Any], ...]  # as they are kept, which is what a child is handed


@cache
def load_meters() -> dict[str, LogMetricMap]:
    """Raises MeterError."""
    return {book.engine: book for book in map(_book, sorted(FOLDER.glob("*.yaml")))}


def _book(path: Path) -> LogMetricMap:
    try:
        kept = load_yaml(path.read_text(encoding="utf-8"))
        for rule in kept["rules"]:
            if strange := (rule.keys() - _KEYS) | (rule["fields"].keys() - set(FIELDS)):
                raise ValueError(f"{rule['id']} has keys that are not known: {strange}")
            MetricRule.from_json(rule)
        return LogMetricMap(
            engine=kept["engine"], tokens=kept["tokens"], rules=tuple(kept["rules"])
        )
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise MeterError(f"{path.name}: {error!r}") from error
