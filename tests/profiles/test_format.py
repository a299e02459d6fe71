from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from servers.judge.runs.limits import Limits
from servers.templatetags import format as f
from tests.cases import table

GIB = 2**30
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "not reported"),
        (0, "0.0 GiB"),
        (40 * 2**20, "0.04 GiB"),
        (1.5 * GIB, "1.5 GiB"),
        (95.6 * GIB, "95.6 GiB"),
        (99.96 * GIB, "100 GiB"),
        (503.5 * GIB, "504 GiB"),
    ],
)
def test_bytes_read_as_gib_and_an_unknown_size_is_never_zero(size: float | None, text: str) -> None:
    assert f.gib(size) == text


@table(
    ("span", "text"),
    [
        (None, ""),
        (0, "0 s"),
        (3.42, "3.4 s"),
        (9.96, "10 s"),
        (60, "1 min"),
        (252, "4 min 12 s"),
        (3600, "1 h"),
        (7384, "2 h 3 min"),
        (3605, "1 h"),
        (timedelta(days=2, hours=3, seconds=9), "2 d 3 h"),
    ],
)
def test_a_time_span_reads_by_its_two_largest_parts(
    span: timedelta | float | None, text: str
) -> None:
    assert f.duration(span) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (2, "just now"),
        (59, "59 s ago"),
        (61, "1 min ago"),
        (7300, "2 h ago"),
        (86_399, "23 h ago"),
        (86_400, "20 Nov 12:00"),
        (-200_000, "23 Nov 19:33"),
        (400 * 86_400, "17 Oct 2025 12:00"),
        (-90, "in 1 min"),
    ],
)
def test_a_moment_reads_relative_to_now(seconds: float, text: str) -> None:
    assert f.relative(NOW - timedelta(seconds=seconds), NOW) == text


def test_a_time_carries_its_exact_moment_for_hover_and_machines() -> None:
    html = f.ago(NOW)

    assert 'datetime="2026-11-21T12:00:00+00:00"' in html
    assert 'title="2026-11-21 12:00:00 UTC"' in html


def test_how_long_something_lasts_has_whole_seconds() -> None:
    assert ">7 s<" in f.since(timezone.now() - timedelta(seconds=7.4))
    assert ">12 s<" in f.since(timezone.now() - timedelta(seconds=12.4))


def test_a_figure_that_is_not_there_is_not_reported() -> None:
    assert f.reported(None, "W") == "not reported"
    assert f.reported(0, "%") == "0 %"
    assert f.reported(142.6) == "143"


def test_an_exit_code_above_128_names_its_signal() -> None:
    assert f.signal_name(137) == "SIGKILL"
    assert f.signal_name(1) == ""
    assert f.signal_name(255) == ""


def test_a_log_line_loses_a_terminals_escape_sequences() -> None:
    assert f.plain("\x1b[1;32mINFO\x1b[0m ready\r\n") == "INFO ready"
    assert f.plain("\x1b]0;title\x07text") == "text"
    assert f.plain(" 10%\r 50%\r100%") == "100%"


def test_a_command_is_shown_one_option_a_line_and_can_be_pasted() -> None:
    words = ["--model", "a b/c", "--host", "0.0.0.0", "--trust-remote-code"]

    assert f.shell(words) == "--model 'a b/c' \\\n  --host 0.0.0.0 \\\n  --trust-remote-code"


def test_an_engine_has_its_own_spelling() -> None:
    assert f.engine_title("vllm") == "vLLM"
    assert f.engine_title("of-the-past") == "of-the-past"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("Run `docker login` there.", "Run <code>docker login</code> there."),
        ("`a` or `b`", "<code>a</code> or <code>b</code>"),
        ("One ` alone, <b>", "One ` alone, &lt;b&gt;"),
        ("`<script>`", "<code>&lt;script&gt;</code>"),
        (None, ""),
    ],
)
def test_a_command_in_a_sentence_reads_as_code(text: str | None, html: str) -> None:
    assert f.with_code(text) == html


def test_each_limit_of_a_box_has_a_label() -> None:
    assert [name for name in Limits.__dataclass_fields__ if f.limit_word(name) == name] == []
