"""Logs that were pasted with something around every line tell what they tell without it."""

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from servers.judge.logs.diagnosis import report
from servers.judge.logs.wrapping import unwrap
from tests.cases import table

_LOGS = Path(__file__).parent / "logs"
_NAMES = (
    "handled-traceback-then-unknown.log",
    "llamacpp-healthy.log",
    "sglang-request-crash.log",
    "vllm-hang-while-serving.log",
    "vllm-no-kv.log",
    "vllm-tp-worker-oom-before-parent.log",
    "vllm-unknown-crash.log",
)
_SHAPES: dict[str, Callable[[int, str], str]] = {
    "file of docker": lambda at, line: json.dumps({"log": f"{line}\n", "stream": "stderr"}),
    "journal as JSON": lambda at, line: json.dumps({"PRIORITY": "6", "MESSAGE": line}),
    "slog": lambda at, line: (
        f"time=2026-05-02T08:11:07Z level=info msg={json.dumps(line)} component=x"
    ),
    "Google Cloud": lambda at, line: (
        f"INFO 2026-05-02T08:11:07.12Z [resource.labels.podName: elm] {line}"
    ),
    "journal with ISO times": lambda at, line: f"2026-05-02T08:11:07+0000 elm docker[77]: {line}",
    "quote": lambda at, line: f"> {line}",
    "numbers": lambda at, line: f"{at:6}\t{line}",
    "indented": lambda at, line: f"    {line}",
    "pod": lambda at, line: f"[pod/plum-6c9d-x2x/engine] {line}",
    "names": lambda at, line: f"plum-6c9d-x2x engine {line}",
    "word in brackets": lambda at, line: f"[ENGINE LOG] {line}",
    "pm2": lambda at, line: f"0|plum  | {line}",
    "another logger": lambda at, line: f"2026-05-02 08:11:07,120 - elm.main - INFO - {line}",
    "Lemonade": lambda at, line: f"DEBUG:    LLAMA SERVER GPU: {line}",
    "times of ts": lambda at, line: f"May 02 08:11:{at % 60:02d} {line}",
    "times with slashes": lambda at, line: f"2026/05/02 08:11:{at % 60:02d} {line}",
    "a day and hours": lambda at, line: f"05-02 08:11:07.120{line}",
    "hours alone": lambda at, line: f"[08:11:{at % 60:02d}] {line}",
    "times and a tab": lambda at, line: f"2026-05-02T08:11:07.120Z\t{line}",
    "times and two spaces": lambda at, line: f"2026-05-02T08:11:07Z  {line}",
    "journal": lambda at, line: f"May 02 08:11:07 elm docker[77]: {line}",
    "journal without ids": lambda at, line: f"May 02 08:11:07 elm engine: {line}",
    "srun --label": lambda at, line: f"0: {line}",
    "mpirun --tag-output": lambda at, line: f"[1,0]<stderr>:{line}",
    "name of a node": lambda at, line: f"elm | {line}",
    "quote of a numbered log": lambda at, line: f"> {at}: {line}",
}


def _told(text: str) -> list[object]:
    told = report(text.split("\n"))
    return [told[name] for name in ("engine", "phases", "outcome", "cause", "evidence")]


@table(("shape", "name"), product(_SHAPES, _NAMES))
def test_a_wrapping_changes_nothing(shape: str, name: str) -> None:
    text = (_LOGS / name).read_text()
    wrap = _SHAPES[shape]
    wrapped = "\n".join(wrap(at, line) for at, line in enumerate(text.split("\n"), start=1))
    assert _told(wrapped) == _told(text)


def test_fences_at_both_ends_are_no_lines() -> None:
    text = (_LOGS / "vllm-hang-while-serving.log").read_text().rstrip("\n")
    engine, phases, outcome, cause, evidence = _told(f"<details>\n\n```\n{text}\n```\n</details>")
    assert [engine, phases, outcome, cause] == _told(text)[:4]
    assert evidence[0]["line"] == _told(text)[4][0]["line"] + 3  # type: ignore[index]


@pytest.mark.parametrize(
    "line",
    [
        "INFO 11-21 10:00:00 [core.py:1] plum",
        "llama_model_loader: - kv   0: general.name str = plum",
        '  File "/plum.py", line 3, in main',
        "{plum}",
    ],
)
def test_what_an_engine_writes_stays(line: str) -> None:
    lines = [(1, "start"), *((number, line) for number in range(2, 40))]
    assert unwrap(lines) == lines
