import pytest

from servers.forms.profile_fields import read_box, show
from servers.launch.commandline import text_boxes
from servers.launch.commandline.text_boxes import WordsError


@pytest.mark.parametrize("name", ["HF_TOKEN", "OPENAI_API_KEY", "db_password", "AWS_SECRET"])
def test_secret_names_are_known(name: str) -> None:
    assert text_boxes.is_secret(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "NCCL_DEBUG"])
def test_harmless_names_are_not_secret(name: str) -> None:
    assert not text_boxes.is_secret(name)


@pytest.mark.parametrize(
    ("text", "count"),
    [("64g", 64 << 30), ("512M", 512 << 20), ("1.5G", 3 << 29), ("1024", 1024), ("", 0)],
)
def test_sizes_are_read_as_docker_reads_them(text: str, count: int) -> None:
    assert read_box("size", text) == count


def test_a_size_is_written_so_that_it_reads_back() -> None:
    for count in (0, 1023, 1 << 20, 3 << 29, 64 << 30):
        assert read_box("size", show("shm_size", count)) == count


def test_nonsense_for_a_size_is_told() -> None:
    with pytest.raises(WordsError, match="64g"):
        read_box("size", "much")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [("all", "all"), ("", "all"), ("none", "none"), ('"device=0,1"', "0,1"), ("3, 1", "3,1")],
)
def test_gpus_are_read_as_docker_reads_them(text: str, gpus: str) -> None:
    assert text_boxes.gpus(text) == gpus


@pytest.mark.parametrize("text", ["0,0", "first", "0;1"])
def test_bad_gpus_are_told(text: str) -> None:
    with pytest.raises(WordsError):
        text_boxes.gpus(text)


def test_ulimits_are_read() -> None:
    assert text_boxes.ulimits("memlock=-1\n--ulimit stack=67108864") == {
        "memlock": -1,
        "stack": 67108864,
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 0), ("0", 0), ("90s", 90), ("20m", 1200), ("1h30m", 5400), (" 2H ", 7200)],
)
def test_lengths_of_time_are_read(text: str, seconds: int) -> None:
    assert read_box("span", text) == seconds


@pytest.mark.parametrize("text", ["20", "m", "soon", "-5m", "5m later", "1.5h"])
def test_a_length_of_time_has_a_unit(text: str) -> None:
    with pytest.raises(WordsError, match="20m, 90s"):
        read_box("span", text)


@pytest.mark.parametrize("text", ["health", "http://evil/health", "/a b", "/a\nb", "/ü"])
def test_a_path_of_an_engine_is_no_address(text: str) -> None:
    with pytest.raises(WordsError, match="is not a path"):
        read_box("path", text)


def test_figures_are_read_a_line_each() -> None:
    assert text_boxes.figures("tokens per second: 30-35\n\nfirst token : 0.3 s") == {
        "tokens per second": "30-35",
        "first token": "0.3 s",
    }
    with pytest.raises(WordsError, match="is not a figure"):
        text_boxes.figures("fast")
