"""Whole logs, as engines write them: scary but healthy, first cause and noise, ranks, unknown."""

from pathlib import Path
from typing import Any

import yaml

from servers.judge.logs.diagnosis import report
from tests.cases import table

FOLDER = Path(__file__).parent / "logs"
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "expected.yaml").read_text())


def test_every_log_is_expected_to_mean_something() -> None:
    assert set(EXPECTED) == {path.stem for path in FOLDER.glob("*.log")}
    assert len(EXPECTED) >= 20


@table("name", EXPECTED)
def test_a_whole_log_is_told_apart(name: str) -> None:
    wanted = dict(EXPECTED[name])
    line = wanted.pop("line", None)
    lines = (FOLDER / f"{name}.log").read_text().splitlines()

    told = report(lines, exit_code=wanted.pop("code", None))

    assert {key: told[key] for key in wanted} == wanted
    if line is not None:
        assert line in {each["line"] for each in told["evidence"]}, told["evidence"]
    for each in told["evidence"]:
        assert each["text"].rstrip("…") in lines[each["line"] - 1]
    if told["cause"]:
        assert told["fix"]
