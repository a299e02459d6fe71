"""What an engine itself gets to read of a pasted command."""

import pytest

from servers.launch.commandline.engine_words import EngineFlags, engine_words, split_engine_words
from servers.launch.commandline.paste import read
from tests.cases import table

_MODEL = ("--model", "acme/Plum-8B")


@table(
    ("paste", "words"),
    [
        ("vllm serve acme/Plum-8B --port 8000", ("acme/Plum-8B", "--port", "8000")),
        ("sudo nohup uv run vllm serve acme/Plum-8B &", ("acme/Plum-8B",)),
        ("python3 -m vllm.entrypoints.openai.api_server --model acme/Plum-8B", _MODEL),
        ("python3 -m vllm.entrypoints.cli.main serve acme/Plum-8B", ("acme/Plum-8B",)),
        ("sglang serve --model-path acme/Plum-8B", ("--model-path", "acme/Plum-8B")),
        ("./llama-server -hf acme/Plum-GGUF", ("-hf", "acme/Plum-GGUF")),
        ("docker run vllm/vllm-openai --model acme/Plum-8B", _MODEL),
        ("docker run vllm/vllm-openai acme/Plum-8B --port 1", ("acme/Plum-8B", "--port", "1")),
        ("docker run --entrypoint vllm acme/vllm serve acme/Plum-8B", ("acme/Plum-8B",)),
        ("docker run acme/vllm serve acme/Plum-8B", ("acme/Plum-8B",)),
        ("docker run ghcr.io/ggml-org/llama.cpp:full --server -m /m.gguf", ("-m", "/m.gguf")),
        ("docker run acme/box bash -lc 'pip install x && vllm serve a/b'", ("a/b",)),
        ("docker run --entrypoint sh acme/box -c 'exec env A=1 vllm serve a/b'", ("a/b",)),
        ("docker run acme/box sh -c \"bash -c 'vllm serve a/b'\"", ("a/b",)),
    ],
)
def test_wrappers_and_programs_are_taken_off(paste: str, words: tuple[str, ...]) -> None:
    (command,) = read(paste)
    assert engine_words(command) == words


@pytest.mark.parametrize(
    "paste",
    [
        "docker run -it vllm/vllm-openai bash",
        "docker run -it --entrypoint /bin/bash vllm/vllm-openai",
        "docker run lmsysorg/sglang:latest nvidia-smi",
        "docker run redis:7",
        "docker run acme/box bash -c 'echo \"unclosed'",
    ],
)
def test_a_container_without_an_engine_has_no_engine_words(paste: str) -> None:
    (command,) = read(paste)
    assert engine_words(command) is None


def test_vllm_names_its_checkpoint_first_last_or_by_flag() -> None:
    wanted = EngineFlags(engine="vllm", checkpoint="a/b", port="1", flags=("--x",))
    for words in (
        ("a/b", "--port", "1", "--x"),
        ("--x", "--port=1", "--model", "a/b"),
        ("--model=a/b", "--x", "--port", "1"),
    ):
        assert split_engine_words("vllm", words) == wanted
    assert split_engine_words("vllm", ("--x", "--port", "1", "a/b")) == wanted


def test_several_served_names_stay_among_the_flags() -> None:
    found = split_engine_words("vllm", ("a/b", "--served-model-name", "one", "two"))
    assert found.checkpoint == "a/b"
    assert found.served_name is None
    assert found.flags == ("--served-model-name", "one", "two")


def test_the_last_of_two_ports_counts() -> None:
    found = split_engine_words("sglang", ("--model-path", "a/b", "--port", "1", "--port", "2"))
    assert (found.port, found.flags) == ("2", ())


def test_underscores_are_dashes() -> None:
    assert split_engine_words("vllm", ("a/b", "--served_model_name", "plum")).served_name == "plum"


def test_llama_cpp_has_short_flags() -> None:
    words = ("-m", "/m.gguf", "-a", "plum", "--host", "0.0.0.0", "-ngl", "99")
    assert split_engine_words("llamacpp", words) == EngineFlags(
        engine="llamacpp",
        checkpoint="/m.gguf",
        served_name="plum",
        host="0.0.0.0",
        flags=("-ngl", "99"),
    )
    assert split_engine_words("llamacpp", ("-hf", "a/b:Q4_K_M")).checkpoint == "a/b:Q4_K_M"
