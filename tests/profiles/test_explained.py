import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.launch.commandline import lines
from servers.launch.commandline.text_boxes import WordsError
from servers.launch.engines import flaghelp


def test_flags_are_read_from_several_lines_with_or_without_backslashes() -> None:
    text = "--model x \\\n  --tp 2  # two cards\n# a comment\n--port 8000"

    assert lines.comment_flags(text).words == ("--model", "x", "--tp", "2", "--port", "8000")


def test_a_comment_is_the_reason_for_its_line_or_for_the_one_below() -> None:
    text = (
        "--tp 2  # two cards\n# Longer contexts\n# do not fit.\n--max-model-len=8192\n\n"
        "# about nothing\n\n--seed 1"
    )

    assert lines.comment_flags(text).reasons == {
        "--tp": "two cards",
        "--max-model-len": "Longer contexts do not fit.",
    }


def test_quoted_json_may_span_lines_and_hold_a_hash() -> None:
    text = '--speculative-config \'{"method":\n "mtp # 2"}\' --tp 2'

    words = ("--speculative-config", '{"method":\n "mtp # 2"}', "--tp", "2")
    assert lines.comment_flags(text).words == words


def test_an_open_quotation_mark_is_told_with_its_line() -> None:
    with pytest.raises(WordsError, match="Line 2"):
        lines.comment_flags("--tp 2\n--name 'qwen")


def test_an_apostrophe_in_a_comment_opens_nothing() -> None:
    assert lines.comment_flags("--tp 2 # it's two\n--x").words == ("--tp", "2", "--x")


WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"])))


@given(WORDS)
def test_words_survive_being_shown_and_read_again(words: list[str]) -> None:
    text = flaghelp.flags_text(tuple(words), {})

    assert lines.comment_flags(text).words == tuple(words)


def test_flags_survive_with_their_reasons() -> None:
    flags = ("--compilation-config", '{"level": 3}', "--enable-x", "-tp=2", "--stop", "a b", "-1")
    reasons = {"-tp": "two # cards", "--enable-x": "it's needed"}

    read = lines.comment_flags(flaghelp.flags_text(flags, reasons))

    assert (read.words, read.reasons) == (flags, reasons)


def test_environment_takes_shell_and_docker_notation() -> None:
    text = "export A=1\n-e B='x y'  # why not\n\n# no\nC=a=b\nD=x # y\nE=\"a # b\""

    read = lines.comment_environment(text)

    assert read.values == {"A": "1", "B": "x y", "C": "a=b", "D": "x", "E": "a # b"}
    assert read.reasons == {"B": "why not", "C": "no", "D": "y"}


@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_]{1,8}", fullmatch=True),
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"])),
    )
)
def test_variables_survive_being_shown_and_read_again(values: dict[str, str]) -> None:
    assert lines.comment_environment(lines.environment_text(values, {})).values == values


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A", "is not NAME=value"),
        ("1A=2", "not a name"),
        ("A=1\nA=2", "Line 2: A is set twice"),
    ],
)
def test_bad_environment_lines_are_told(text: str, says: str) -> None:
    with pytest.raises(WordsError, match=says):
        lines.comment_environment(text)
