"""The ports that tests give to what they start."""

import re
import socket
import subprocess
import sys

import pytest
from django.conf import settings

from tests import ports
from tests.ports import EACH, FIRST, PROCESSES, free_port
from tests.terminal import ROOT

ONE = "from tests.ports import free_port; print(free_port(), flush=True); input()"


def test_none_is_given_twice_and_each_can_be_bound() -> None:
    given = [free_port() for _ in range(5)]

    assert len(set(given)) == 5
    for port in given:
        socket.create_server(("127.0.0.1", port)).close()


def test_none_is_an_engines_or_one_that_the_kernel_gives_to_anybody() -> None:
    assert settings.ENGINE_PORTS.stop <= FIRST
    assert FIRST + PROCESSES * EACH <= 32_768


def test_one_that_somebody_listens_on_is_passed_over() -> None:
    taken, free = free_port(), free_port()
    with socket.create_server(("127.0.0.1", taken)):
        assert not ports._can_be_bound(taken)
    assert ports._can_be_bound(free)


@pytest.mark.parametrize("ends", ["orderly", "killed"])
def test_what_another_process_was_given_is_its_own_as_long_as_it_lives(ends: str) -> None:
    program = [sys.executable, "-c", ONE]
    with subprocess.Popen(
        program, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        port = int(re.findall(r"\d+", other.stdout.readline())[0])
        assert not ports._hold(port)
        if ends == "killed":
            other.kill()
        else:
            other.communicate("\n")

    assert ports._hold(port)
