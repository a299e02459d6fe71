"""The form of a report: what reads back, and what is refused with its place."""

import pytest
import yaml

from servers.judge.reports import document
from servers.judge.reports.document import Report, ReportError, ReportLine, number_lines
from servers.judge.reports.failure import (
    MOST_LINES,
    FailureFacts,
    build_failure,
    choose_lines,
    make_case,
)
from servers.judge.reports.redaction import Redactor
from tests.cases import table

GOOD = "inferdash report 1\nkind: failure\ntruth: It was the driver.\n--- log\n| one\n… 5 lines left out\n| two\n"


def test_it_reads_back_as_it_was_written() -> None:
    lines = [
        (1, "plain"),
        (2, "--- log"),
        (9, "| a bar"),
        (10, ""),
        (12, "```"),
        (13, "  … 3 lines left out"),
    ]
    made = Report(
        kind="failure",
        facts={"truth": "It was\nthe driver.", "engine": "vllm", "exit code": ""},
        parts={"log": tuple(ReportLine(number=n, text=text) for n, text in lines)},
    )

    read = document.read(document.write(made))

    assert read.facts == {"truth": "It was the driver.", "engine": "vllm"}
    assert [(line.number, line.text) for line in read.parts["log"]] == lines


@pytest.mark.parametrize("form", ["\ufeff{}", "\n\n```text\n{}```\n", "~~~\n{}\n\n~~~"])
def test_an_issue_may_stand_around_it(form: str) -> None:
    text = form.format(GOOD).replace("\n", "\r\n")

    assert document.write(document.read(text)) == GOOD


@table(
    ("text", "says"),
    [
        ("", "line 1: this is no report: the first line of one is “inferdash report 1”. Save one"),
        ("name: x\nengine: vllm\n", "line 1: this is no report"),
        (GOOD.replace("report 1", "report 7"), "line 1: this report has form 7, and this inferdash reads 1. Update"),
        (GOOD.replace("kind: failure\n", ""), "line 2: a report begins with “kind:”"),
        (GOOD.replace("kind: failure", "kind: fault"), "line 2: “fault” is no kind of report: there are failure, paste, memory."),
        (GOOD.replace("truth:", "turth:"), "line 3: a report has no “turth”. Known here: kind, truth, said"),
        (GOOD.replace("truth: It", "It"), "line 3: “It was the driver.” says nothing: a line here is “name: value”"),
        (GOOD.replace("truth:", "kind:"), "line 3: “kind” stands here twice."),
        (GOOD.replace("--- log", "--- dog"), "line 4: a failure report has no part “dog”. Known are launch, docker says, log."),
        (GOOD.replace("| two", "two"), "line 7: each line of “log” begins with “|”. Was the file cut, or its lines wrapped?"),
        (GOOD + "--- log\n| x\n", "line 8: the part “log” is here twice."),
        ("inferdash report 1\nkind: paste\n", "the part “--- paste” is missing or empty. Was the file cut?"),
        ("inferdash report 1\n--- log\n| x\n", "line 2: a line “kind: …” is missing before “log”."),
    ],
)  # fmt: skip
def test_what_is_no_report_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ReportError) as refused:
        document.read(text)

    assert says in str(refused.value)


def test_it_holds_nothing_that_a_terminal_obeys() -> None:
    parts = {"paste": number_lines(["\x1b]0;owned\x07a\x00b\ud83d", "c"])}

    text = document.write(Report(kind="paste", parts=parts))

    assert text.endswith("--- paste\n| a␀b?\n| c\n")


@table("sign", ["\r", "\x85", "\u2028", "\u2029", "\x0b", "\x1c"])
def test_what_is_read_ends_no_line_elsewhere(sign: str) -> None:
    said = document.read(
        GOOD.replace("was", f"was{sign}bad: {{}} #").replace("| one", f"| o{sign}e")
    )

    (_engine, expected) = make_case(said).files
    assert len(expected.text.splitlines()) == 2, expected.text
    assert list(yaml.safe_load(expected.text).values())[0]["outcome"] == "failed"
    assert len("\n".join(said.texts("log")).splitlines()) == 2


def test_of_a_long_log_the_telling_lines_and_both_ends_are_kept() -> None:
    lines = [(n, f"line {n}") for n in range(1, 5001)]

    kept = [number for number, _text in choose_lines(lines, [2500, 4000])]

    assert len(kept) == MOST_LINES
    assert {1, 2, 100, 2492, 2500, 2508, 4000, 4900, 5000} <= set(kept)
    assert kept == sorted(kept)
    assert choose_lines(lines[:400], [7]) == lines[:400]


def test_a_line_says_what_a_terminal_would_show_last() -> None:
    lines = [(1, "10%|█ |\r50%|█████|\r\x1b[31mdone\x1b[0m"), (2, "x" * 9000)]

    texts = build_failure(FailureFacts(lines=lines), Redactor()).texts("log")

    assert texts[0] == "done"
    assert len(texts[1]) == 2000
