import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from inferdash.up import plan
from inferdash.up.plan import Program, SupervisorPlan
from tests.terminal import TerminalProgram
from tests.up.programs import ROOT, alive
from tests.waiting import PATIENCE, wait_until


@pytest.fixture
def supervise(start: Callable[..., TerminalProgram]) -> Callable[..., TerminalProgram]:
    def supervise(*programs: Program, **environment: str) -> TerminalProgram:
        whole = SupervisorPlan(
            address="http://127.0.0.1:9",
            loopback="http://127.0.0.1:9",
            admin_link="",
            warnings=[],
            programs=list(programs),
        )
        descriptor = plan.write(whole, keep_open=[])
        command = [sys.executable, "-m", "inferdash.up.supervisor", str(descriptor)]
        started = start(command, {"NO_COLOR": "", **environment}, pass_fds=(descriptor,))
        os.close(descriptor)
        return started

    return supervise


def shell(name: str, script: str, *, is_last_to_stop: bool = False) -> Program:
    return Program(
        name=name,
        command=["sh", "-c", script],
        descriptors=[],
        is_last_to_stop=is_last_to_stop,
    )


def test_pauses_grow_and_the_exit_code_is_told(supervise: Callable[..., TerminalProgram]) -> None:
    up = supervise(shell("web", "echo last words >&2; exit 7"))

    up.waits_for(r"web ended with exit code 7; starting it again in 2 s")

    pauses = re.findall(r"starting it again in (\S+) s", up.said)
    assert pauses == ["0.5", "1", "2"]
    assert up.said.count("last words") >= 3


def test_a_program_that_ignores_sigterm_is_killed_with_all_it_started(
    supervise: Callable[..., TerminalProgram],
) -> None:
    up = supervise(shell("web", "trap '' TERM; sh -c 'trap \"\" TERM; echo up; sleep 600' & wait"))
    up.waits_for("web .*up")
    family = psutil.Process(up.process.pid).children(recursive=True)
    assert len(family) >= 2

    up.press_ctrl_c()

    assert up.ends() == 0
    up.waits_for("web did not stop by itself and is killed")
    wait_until(lambda: not alive(family), "all that it started has ended")


def test_a_second_ctrl_c_does_not_wait(supervise: Callable[..., TerminalProgram]) -> None:
    up = supervise(shell("web", "trap '' TERM; echo up; while :; do sleep 600; done"))
    up.waits_for("web .*up")

    up.press_ctrl_c()
    up.waits_for("stopping; engine containers keep running")
    up.press_ctrl_c()

    # After the seconds that it is given otherwise, another sentence is said.
    up.waits_for("web is killed at once")
    assert up.ends() == 0


def test_redis_is_the_last_to_stop(supervise: Callable[..., TerminalProgram]) -> None:
    says_so = "trap 'echo gone; exit' TERM; echo up; while :; do sleep 0.01; done"
    up = supervise(
        shell("redis", says_so, is_last_to_stop=True),
        shell("worker", says_so.replace("echo gone", "sleep 0.3; echo gone")),
    )
    up.waits_for("redis .*up")
    up.waits_for("worker .*up")

    up.press_ctrl_c()

    assert up.ends() == 0
    assert re.findall(r"(worker|redis) +\|\S* gone", up.said) == ["worker", "redis"]


def test_the_log_is_coloured_on_a_terminal_only(supervise: Callable[..., TerminalProgram]) -> None:
    coloured = supervise(shell("web", "echo hello; exec sleep 600"))
    plain = supervise(shell("web", "echo hello; exec sleep 600"), NO_COLOR="1")

    coloured.waits_for("\x1b\\[36mweb       \\|\x1b\\[0m hello")
    plain.waits_for(r"web       \| hello")
    assert "\x1b" not in plain.said


def test_what_a_program_says_cannot_write_to_the_terminal(
    supervise: Callable[..., TerminalProgram],
) -> None:
    script = r"printf 'a\033]0;title\007b\033[2Jc\n'; exec sleep 600"
    up = supervise(shell("web", script), NO_COLOR="1")

    up.waits_for(r"\| a\]0;titleb\[2Jc")
    assert "\x1b" not in up.said


def test_a_long_line_and_one_without_an_end_arrive(
    supervise: Callable[..., TerminalProgram],
) -> None:
    up = supervise(shell("web", "head -c 100000 /dev/zero | tr '\\0' x; printf '\\nno end'"))

    up.waits_for(r"\|\S* no end")
    assert len(re.findall("x{1000,}", up.said)) >= 1


def test_a_terminal_that_takes_nothing_stops_no_program(tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = f"seq 200000; touch {done}; exec sleep 600"
    whole = SupervisorPlan(
        address="http://127.0.0.1:9",
        loopback="http://127.0.0.1:9",
        admin_link="",
        warnings=[],
        programs=[shell("web", script)],
    )
    descriptor = plan.write(whole, keep_open=[])
    command = [sys.executable, "-m", "inferdash.up.supervisor", str(descriptor)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, pass_fds=[descriptor]
    ) as supervisor:
        os.close(descriptor)
        try:
            wait_until(done.exists, "the program ends though nobody reads what it says")
        finally:
            supervisor.terminate()
            supervisor.wait(PATIENCE)
        said, _ = supervisor.communicate()

    assert done.exists(), said[-2000:]
    assert said.startswith(b"web       | 1\n")
