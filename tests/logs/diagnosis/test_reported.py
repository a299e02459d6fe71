"""Failures that people reported, and scares that were none: each quote is told for what it was."""

from pathlib import Path
from typing import Any

import yaml

from servers.judge.logs.diagnosis import report
from tests.cases import table

_ROWS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("reported.yaml").read_text())


@table(("source", "cause", "log"), [(row["source"], row["cause"], row["log"]) for row in _ROWS])
def test_what_was_reported_is_told_for_what_it_was(
    source: str, cause: str | None, log: str
) -> None:
    told = report(log.split("\n"))

    assert told["cause"] == cause, source
    failed = told["outcome"] in ("failed", "hung")
    assert failed == (cause is not None), told["summary"]
