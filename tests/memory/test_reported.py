"""Recordings of boxes that were reported (manage.py diagnose --case), judged again."""

import json
from pathlib import Path
from typing import Any

import yaml

from servers.judge.memory.verdicts import MemoryVerdict
from servers.judge.reports.document import Report, number_lines
from servers.judge.reports.memory import judge_memory
from tests.cases import table

FOLDER = Path(__file__).parent / "recordings"
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "expected.yaml").read_text())


def replayed(name: str, row: dict[str, Any]) -> list[MemoryVerdict]:
    lines = (FOLDER / f"{name}.jsonl").read_text().splitlines()
    facts: dict[str, str] = {
        key: json.dumps(row[key]) for key in ("baselines", "thresholds") if key in row
    }
    return judge_memory(
        Report(kind="memory", facts=facts, parts={"recording": number_lines(lines)})
    )


def test_every_recording_is_expected_to_mean_something() -> None:
    assert set(EXPECTED) == {path.stem for path in FOLDER.glob("*.jsonl")}


@table("name", EXPECTED)
def test_a_recording_ends_with_the_verdict_that_is_right(name: str) -> None:
    row = EXPECTED[name]

    last = {each.gpu: each.verdict for each in replayed(name, row)}

    assert last == row["verdicts"]
