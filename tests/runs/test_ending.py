"""Processes of the box are ended only if they are still the ones that somebody looked at."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.host.kernel.proc import Kernel, Processes
from servers.host.kernel.processes import EndingError, end_process, workers

STUBBORN = "import signal, sys, time\nsignal.signal(15, signal.SIG_IGN)\n"
RENAMED = "open('/proc/self/comm', 'w').write('VLLM::EngineCore')\n"
WAIT = "print('up', flush=True)\nimport time\ntime.sleep(600)\n"


class EndedChild:
    def __init__(self, code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code + WAIT], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"
        self.process.stdout.close()
        self.pid = self.process.pid
        (found,) = Processes(Kernel()).read({self.pid})
        self.start, self.container = found.start, found.container


@pytest.fixture
def child(request: pytest.FixtureRequest) -> Iterator[EndedChild]:
    made = EndedChild(getattr(request, "param", ""))
    yield made
    made.process.kill()
    made.process.wait()


def test_a_process_that_obeys_ends_on_sigterm(child: EndedChild) -> None:
    ended = end_process(child.pid, start=child.start, container=child.container)

    assert ended.by == "SIGTERM"
    assert child.process.wait() == -15


@pytest.mark.parametrize("child", [STUBBORN], indirect=True)
def test_one_that_does_not_is_killed_after_the_grace(child: EndedChild) -> None:
    ended = end_process(child.pid, start=child.start, container=child.container, grace=0.2)

    assert ended.by == "SIGKILL"
    assert child.process.wait() == -9


def test_another_process_with_the_same_number_is_left_alone(child: EndedChild) -> None:
    with pytest.raises(EndingError, match="its number was given again"):
        end_process(child.pid, start=child.start - 1, container=child.container)

    assert child.process.poll() is None


def test_one_in_another_container_is_left_alone(child: EndedChild) -> None:
    with pytest.raises(EndingError, match="not in the container"):
        end_process(child.pid, start=child.start, container="a" * 64)

    assert child.process.poll() is None


def test_one_that_has_ended_is_told_so(child: EndedChild) -> None:
    child.process.kill()
    child.process.wait()

    assert end_process(child.pid, start=child.start, container=child.container).by == ""


@pytest.mark.parametrize("child", [RENAMED], indirect=True)
def test_workers_are_found_by_the_name_that_they_give_themselves(child: EndedChild) -> None:
    found = {each.process.pid: each for each in workers(())}

    assert found[child.pid].process.name == "VLLM::EngineCor"
    assert found[child.pid].memory
    assert found[child.pid].may_end


def test_other_programs_are_none(child: EndedChild, tmp_path: Path) -> None:
    assert child.pid not in {each.process.pid for each in workers(())}
    assert workers((), tmp_path / "nothing") == []
