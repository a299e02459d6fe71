from dataclasses import replace

import pytest

from servers.launch.engines import ENGINES, flaghelp
from servers.launch.engines.flaghelp import HelpError, parse_help
from servers.launch.engines.flaglist import load_shipped
from tests.images.inspection.boxes import HELP, vllm_32

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("own_redis")]


@pytest.mark.parametrize(
    ("engine", "entrypoint", "words"),
    [
        ("vllm", (), ("vllm", "serve", "--help=all")),
        ("vllm", ("vllm", "serve"), ("vllm", "serve", "--help=all")),
        ("vllm", ("/opt/bin/vllm",), ("/opt/bin/vllm", "serve", "--help=all")),
        ("vllm", ("/nv/entry.sh",), ("/nv/entry.sh", "vllm", "serve", "--help=all")),
        ("llamacpp", ("/usr/bin/llama-server",), ("/usr/bin/llama-server", "--help")),
        ("sglang", (), ("python3", "-m", "sglang.launch_server", "--help")),
        ("sglang", ("sglang", "serve"), ("sglang", "serve", "--help")),
        ("sglang", ("python3",), ("python3", "-m", "sglang.launch_server", "--help")),
        (
            "vllm",
            ("python3", "-m", "vllm.entrypoints.openai.api_server"),
            ("python3", "-m", "vllm.entrypoints.openai.api_server", "--help=all"),
        ),
    ],
)
def test_an_image_is_asked_as_it_is_started(
    engine: str, entrypoint: tuple[str, ...], words: tuple[str, ...]
) -> None:
    known = ENGINES[engine]

    assert flaghelp.list_image_flags(known, known.help_commands[0], entrypoint) == words
    if engine != "llamacpp":
        assert (
            flaghelp.list_image_flags(known, known.version_command, entrypoint)
            == known.version_command
        )


@pytest.mark.parametrize(
    ("engine", "text", "version"),
    [
        ("vllm", "INFO 11-21 a line of a log\n0.32.0+cpu\n", "0.32.0+cpu"),
        ("sglang", "0.5.12.post1\n", "0.5.12.post1"),
        ("llamacpp", "version: 6123 (0c1e570)\nbuilt with cc for x86_64\n", "b6123-0c1e570"),
        (
            "llamacpp",
            "version: 0.7.0 (build 11669, commit Debian)\nbuilt with GNU 16.2.0 for Linux x86_64\n",
            "b11669-Debian",
        ),
        ("llamacpp", "version: 0.9.1 (build 12001, commit 0c1e570ab)\n", "b12001-0c1e570ab"),
        ("vllm", "Traceback (most recent call last):\n", ""),
    ],
)
def test_the_version_is_read(engine: str, text: str, version: str) -> None:
    assert flaghelp.version_in(ENGINES[engine], text) == version


def test_a_llama_cpp_build_is_found_among_the_shipped_lists() -> None:
    assert load_shipped("llamacpp", "b6123-0c1e570") is not None


def test_an_answer_takes_what_help_does_not_tell_from_the_same_release() -> None:
    raw = parse_help("vllm", HELP, version="0.32.0+cu130")

    whole = flaghelp.complete_image_flags(raw, ENGINES["vllm"])

    found = whole.find("--tensor-parallel-size")
    assert found is not None
    assert found.type == "int"
    assert whole.env == vllm_32().env
    assert "--calculate-kv-scales" in whole.removed
    unknown = flaghelp.complete_image_flags(
        parse_help("vllm", HELP, version="0.99.0"), ENGINES["vllm"]
    )
    assert unknown.env is None
    assert "--calculate-kv-scales" in unknown.removed


def test_a_flag_whose_help_is_suppressed_is_no_unknown_one() -> None:
    release = load_shipped("sglang", "0.5.23")
    assert release is not None
    sglang = ENGINES["sglang"]
    told = replace(
        release, flags=tuple(flag for flag in release.flags if flag.name not in sglang.hidden_flags)
    )

    assert set(flaghelp.complete_image_flags(told, sglang).names) == set(release.names)
    other = flaghelp.complete_image_flags(replace(told, version="0.5.99"), sglang)
    assert "--forward-pass-metrics-worker-id" not in other.names


def test_a_part_of_a_list_is_none() -> None:
    with pytest.raises(HelpError, match="only a part"):
        flaghelp.flags_in(ENGINES["vllm"], HELP.replace("--port", "--p0rt"), version="")


def test_a_help_of_any_size_is_read_in_time() -> None:
    hostile = HELP + "                        " + "(default: " * 90_000

    assert len(parse_help("vllm", hostile).flags) == 5
