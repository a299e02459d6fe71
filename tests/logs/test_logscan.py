import pytest

from servers.judge.logs.parsing import Level, level, levels
from servers.judge.logs.scan import LogOutline, PatternError, Query, Scan
from tests.cases import table

AT = "2026-11-21T08:00:00.000000001Z"
VLLM = "(EngineCore_DP0 pid=212) "
SGLANG = "[2026-03-30 14:21:44 TP1] "


def found(query: Query, *texts: str, first: int = 1) -> list[int]:
    block = "\n".join(f"{AT} o {text}" for text in texts)
    return list(Scan(query).numbers(first, block))


def test_numbers_are_the_logs_own_and_time_and_stream_are_not_looked_at() -> None:
    texts = ["one", "two", "one more"]

    assert found(Query(text="one"), *texts, first=513) == [513, 515]
    assert found(Query(text="2026"), *texts) == []
    assert found(Query(text="^o ", is_pattern=True), *texts) == []
    assert found(Query(text="^one$", is_pattern=True), *texts) == [1]


def test_colours_and_case_do_not_matter_unless_they_are_to() -> None:
    texts = ["\x1b[31mCUDA out of \x1b[1mmemory\x1b[0m", "cuda"]

    assert found(Query(text="cuda OUT of memory"), *texts) == [1]
    assert found(Query(text="CUDA", is_exact=True), *texts) == [1]
    assert found(Query(text="cuda o", is_pattern=True), *texts) == [1]
    assert found(Query(text="cuda o", is_pattern=True, is_exact=True), *texts) == []


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(PatternError, match="This is no regular expression: unterminated"):
        Scan(Query(text="[a-", is_pattern=True))


@table(
    ("line", "wanted"),
    [
        (VLLM + "ERROR 11-21 10:00:00 [core.py:12] failed", Level.ERROR),
        (VLLM + "WARNING 11-21 10:00:00 [core.py:12] slow", Level.WARNING),
        (VLLM + "INFO 11-21 10:00:00 [core.py:12] 0 errors, no error: none", Level.INFO),
        (SGLANG + "Scheduler hit an exception: Traceback (most recent call last):", Level.ERROR),
        ("torch.OutOfMemoryError: CUDA out of memory.", Level.ERROR),
        ("/opt/x.py:3: UserWarning: this is old", Level.WARNING),
        ("0.00.608.103 E llama_model_load: error loading model", Level.ERROR),
        ("error: unrecognized arguments: --x", Level.ERROR),
        ("Loading error_correction.safetensors", Level.INFO),
        ("Killed", Level.ERROR),
        ("10% warnings ignored so far", Level.INFO),
        ("", Level.INFO),
    ],
)
def test_a_line_is_as_bad_as_it_says(line: str, wanted: Level) -> None:
    assert level(line) is wanted


def test_what_is_indented_under_a_traceback_belongs_to_it() -> None:
    lines = [
        "all is well",
        "Traceback (most recent call last):",
        '  File "a.py", line 1, in <module>',
        "    run()",
        "ValueError: no",
        "  indented, but of nothing",
    ]

    # The state ends with the first line that stands at the margin.
    assert [each.name for each in levels(lines)] == [
        "INFO", "ERROR", "ERROR", "ERROR", "ERROR", "INFO"
    ]  # fmt: skip


def test_an_outline_counts_only_what_is_new() -> None:
    outline = LogOutline(after=2, upto=4)
    block = "\n".join(f"{AT} o {text}" for text in [SGLANG + "x", *["error: x"] * 4])

    outline.add(1, block)

    assert (outline.errors, outline.warnings, outline.ranks) == ([3, 4], [], ["TP1"])


def test_lines_that_are_known_are_told_apart() -> None:
    known = [("(?i)^slow", ("slow",)), ("[0-9]{3}", ())]
    outline = LogOutline(after=10, upto=13, known=known)
    texts = ["slow", "Slow start", "404", "not slow", "slow"]
    outline.add(10, "\n".join(f"{AT} o {text}" for text in texts))

    assert outline.found == [(11, 0), (12, 1)]
