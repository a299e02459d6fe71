"""What vLLM itself prints in its image is read as the list that is shipped for it."""

import subprocess

import pytest

from servers.launch.engines.flaghelp import parse_help
from tests.profiles.lint.test_flaglist import listed
from tests.vllm import build, image

pytestmark = pytest.mark.vllm


@pytest.mark.takes(60)
def test_vllm_in_its_image_lists_the_flags_that_are_shipped(docker_host: str) -> None:
    image.provide(docker_host)
    run = ["docker", "-H", docker_host, "run", "--rm", "--network", "none", build.TAG]
    printed = subprocess.run(
        [*run, "--help=all"], capture_output=True, text=True, check=True, timeout=300
    ).stdout

    flags = parse_help("vllm", printed, version="0.32.0")

    shipped = {flag.name: flag for flag in listed("vllm", "0.32.0").flags}
    assert {flag.name for flag in flags.flags} == set(shipped)
    for flag in flags.flags:
        mine = shipped[flag.name]
        assert (flag.names, flag.off, flag.takes) == (mine.names, mine.off, mine.takes)
        assert (flag.choices, flag.known) == (mine.choices, mine.known)
