"""What a line says, without colours and prefixes."""

import re
from collections.abc import Iterable, Iterator
from re import _constants as constants
from re import _parser as parser
from typing import Any

import pytest

from servers.judge.logs import parsing
from servers.judge.logs.parsing import ParsedLine
from tests.cases import table


@table(
    ("line", "wanted"),
    [
        (
            "[2026-03-30 14:21:44 TP1] Load weight begin. avail mem=78.84 GB",
            ParsedLine(
                text="Load weight begin. avail mem=78.84 GB", rank="TP1", at="2026-03-30 14:21:44"
            ),
        ),
        (
            "[2026-08-10 09:47:14 DP0 TP0 EP0] Load weight end.",
            ParsedLine(text="Load weight end.", rank="DP0 TP0 EP0", at="2026-08-10 09:47:14"),
        ),
        (
            "[2026-03-30 14:21:44] INFO:     Uvicorn running on http://0.0.0.0:8000",
            ParsedLine(
                text="Uvicorn running on http://0.0.0.0:8000",
                level="INFO",
                at="2026-03-30 14:21:44",
            ),
        ),
        (
            "(EngineCore_DP0 pid=212) INFO 10-06 12:00:31 [gpu_worker.py:298] Available KV",
            ParsedLine(text="Available KV", rank="DP0", level="INFO", at="10-06 12:00:31"),
        ),
        (
            "(APIServer pid=1) (EngineCore_DP0 pid=68) ERROR 02-06 16:34:06 [core.py:936] broken",
            ParsedLine(text="broken", rank="DP0", level="ERROR", at="02-06 16:34:06"),
        ),
        (
            "(Worker_TP0_EP1 pid=48) INFO 01-14 01:49:24 [backends.py:278] Compiling",
            ParsedLine(text="Compiling", rank="TP0 EP1", level="INFO", at="01-14 01:49:24"),
        ),
        (
            "(VllmWorker rank=1 pid=7) WARNING 01-14 01:49:24 [x.py:2] slow",
            ParsedLine(text="slow", rank="rank1", level="WARNING", at="01-14 01:49:24"),
        ),
        (
            "(VllmWorker-0 pid=33) WARNING 11-21 14:50:33 [vllm.py:725] no Triton",
            ParsedLine(text="no Triton", level="WARNING", at="11-21 14:50:33"),
        ),
        (
            "(RayWorkerWrapper pid=77, ip=10.0.0.2) INFO 01-14 01:49:24 [x.py:2] there",
            ParsedLine(text="there", rank="10.0.0.2 pid 77", level="INFO", at="01-14 01:49:24"),
        ),
        (
            "(RayWorkerWrapper pid=77) [repeated 3x across cluster] INFO 01-14 01:49:24 [x.py:2] a",
            ParsedLine(text="a", level="INFO", at="01-14 01:49:24"),
        ),
        (
            "(ServeReplica:default:LLM pid=77) INFO 01-14 01:49:24 [x.py:2] a",
            ParsedLine(text="a", level="INFO", at="01-14 01:49:24"),
        ),
        (
            "INFO 04-30 10:20:36 core.py:396] older",
            ParsedLine(text="older", level="INFO", at="04-30 10:20:36"),
        ),
        (
            "(EngineCore pid=2) 2026-05-30 07:47:00,209 - INFO - autotuner.py:634 - flashinfer.jit:"
            " [Autotuner]: Autotuning process ends",
            ParsedLine(
                text="[Autotuner]: Autotuning process ends",
                level="INFO",
                at="2026-05-30 07:47:00,209",
            ),
        ),
        (
            "0.00.608.103 I srv  llama_server: listening on http://127.0.0.1:18080",
            ParsedLine(
                text="llama_server: listening on http://127.0.0.1:18080",
                level="INFO",
                at="0.00.608.103",
            ),
        ),
        ("srv    load_model: loading model 'a'", ParsedLine(text="load_model: loading model 'a'")),
        (
            "vllm-1  | 2026-11-21T10:00:00.123456789Z INFO 11-21 10:00:00 [a.py:1] hello",
            ParsedLine(text="hello", level="INFO", at="2026-11-21T10:00:00.123456789Z"),
        ),
        (
            "sglang-server  | [2026-11-21 10:00:00] hello",
            ParsedLine(text="hello", at="2026-11-21 10:00:00"),
        ),
        (
            "Nov 21 10:00:00 spark-1 docker[812]: INFO:     Started",
            ParsedLine(text="Started", level="INFO", at="Nov 21 10:00:00"),
        ),
        (
            "[rank1]: RuntimeError: CUDA error",
            ParsedLine(text="RuntimeError: CUDA error", rank="rank1"),
        ),
        (
            "llama-server  | main: model loaded",
            ParsedLine(text="main: model loaded"),
        ),
        (
            "2025-03-05 08:58:54 ggml_cuda_init: found 1 CUDA devices:",
            ParsedLine(text="ggml_cuda_init: found 1 CUDA devices:", at="2025-03-05 08:58:54"),
        ),
        ("name | size", ParsedLine(text="name | size")),
        ("(a word) and more", ParsedLine(text="(a word) and more")),
        ("Error: it broke", ParsedLine(text="Error: it broke")),
        ("", ParsedLine(text="")),
    ],
)
def test_prefixes_are_taken_off_and_kept(line: str, wanted: ParsedLine) -> None:
    assert parsing.read(line) == wanted


def test_a_redrawn_line_is_each_of_its_states_without_colours() -> None:
    line = "\x1b[36mCapturing:  50%|##  | 1/2\rCapturing: 100%|####| 2/2\x1b[0m\r\n"
    assert list(parsing.pieces(line)) == [
        "Capturing:  50%|##  | 1/2",
        "Capturing: 100%|####| 2/2",
    ]


@table(
    "line",
    [
        "a" * 300_000,
        "(" + "a " * 150_000,
        "(a" + " pid=" * 60_000,
        "[2026-03-30 14:21:44" + " TP0" * 60_000,
        " | " * 100_000,
        "\x1b[" + "0" * 300_000,
        "\x1b]" * 150_000,
        "INFO: " * 50_000,
    ],
)
def test_hostile_lines_are_cut(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = [CountedPattern(pattern) for pattern in parsing._PREFIXES]
    monkeypatch.setattr(parsing, "_PREFIXES", tuple(counted))

    found = parsing.parse_line(line)

    assert all(len(each.text) <= parsing.LONGEST for each in found)
    # However long the line: none of its patterns is led over more than a part of it, and seldom.
    longest = max((size for each in counted for size in each.sizes), default=0)
    assert longest <= parsing.LONGEST
    looks = parsing._MOST_PREFIXES + 1
    assert all(len(each.sizes) <= looks * len(found) for each in counted)


class CountedPattern:
    """A pattern that keeps of how many characters it was asked."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self.sizes: list[int] = []

    def match(self, text: str) -> re.Match[str] | None:
        self.sizes.append(len(text))
        return self._pattern.match(text)


def repeats(parsed: Iterable[tuple[Any, Any]]) -> Iterator[tuple[int, Any]]:
    """Each repetition in a parsed pattern: how often at most, and of what."""
    for operation, value in parsed:
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            yield value[1], value[2]
        for inner in value if isinstance(value, (tuple, list)) else ():
            for each in inner if isinstance(inner, list) else [inner]:
                if isinstance(each, parser.SubPattern):
                    yield from repeats(each)


@table("pattern", [*parsing._PREFIXES, parsing._COMPOSE, parsing.ANSI])
def test_no_pattern_can_run_away(pattern: re.Pattern[str]) -> None:
    """Backtracking multiplies where one repetition stands in another."""
    for most, of in repeats(parser.parse(pattern.pattern)):
        inner = [count for count, _of in repeats(of)]
        assert not inner or most <= 6, pattern.pattern
        # Those without an end are led over whole lines: of one character each, one after another.
        assert most <= 250 or (pattern is parsing.ANSI and not inner), pattern.pattern
