import pytest

from servers.commandline import words
from servers.commandline.words import WordsError


def test_flags_are_read_from_several_lines_with_or_without_backslashes() -> None:
    text = "--model x \\\n  --tp 2  # two cards\n# a comment\n--port 8000"

    assert words.flags(text) == ("--model", "x", "--tp", "2", "--port", "8000")


def test_quoted_json_may_span_lines() -> None:
    text = '--speculative-config \'{"method":\n "mtp"}\' --tp 2'

    assert words.flags(text) == ("--speculative-config", '{"method":\n "mtp"}', "--tp", "2")


def test_an_open_quotation_mark_is_told_with_its_line() -> None:
    with pytest.raises(WordsError, match="Line 2"):
        words.flags("--tp 2\n--name 'qwen")


def test_flags_survive_being_shown_and_read_again() -> None:
    flags = ("--compilation-config", '{"level": 3}', "--enable-x", "-tp=2", "--stop", "a b")

    assert words.flags(words.flags_text(flags)) == flags


def test_environment_takes_shell_and_docker_notation() -> None:
    text = "export A=1\n-e B='x y'\n\n# no\nC=a=b"

    assert words.environment(text) == {"A": "1", "B": "x y", "C": "a=b"}


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
        words.environment(text)


@pytest.mark.parametrize("name", ["HF_TOKEN", "OPENAI_API_KEY", "db_password", "AWS_SECRET"])
def test_secret_names_are_known(name: str) -> None:
    assert words.is_secret(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "NCCL_DEBUG"])
def test_harmless_names_are_not_secret(name: str) -> None:
    assert not words.is_secret(name)


@pytest.mark.parametrize(
    ("text", "count"),
    [("64g", 64 << 30), ("512M", 512 << 20), ("1.5G", 3 << 29), ("1024", 1024), ("", 0)],
)
def test_sizes_are_read_as_docker_reads_them(text: str, count: int) -> None:
    assert words.size(text) == count


def test_a_size_is_written_so_that_it_reads_back() -> None:
    for count in (0, 1023, 1 << 20, 3 << 29, 64 << 30):
        assert words.size(words.size_text(count)) == count


def test_nonsense_for_a_size_is_told() -> None:
    with pytest.raises(WordsError, match="64g"):
        words.size("much")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [("all", "all"), ("", "all"), ("none", "none"), ('"device=0,1"', "0,1"), ("3, 1", "3,1")],
)
def test_gpus_are_read_as_docker_reads_them(text: str, gpus: str) -> None:
    assert words.gpus(text) == gpus


@pytest.mark.parametrize("text", ["0,0", "first", "0;1"])
def test_bad_gpus_are_told(text: str) -> None:
    with pytest.raises(WordsError):
        words.gpus(text)


def test_ulimits_are_read() -> None:
    assert words.ulimits("memlock=-1\n--ulimit stack=67108864") == {
        "memlock": -1,
        "stack": 67108864,
    }
