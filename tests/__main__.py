"""`make test`: lint and every test that the change can break. `--all`: every test that there is.

`python -m tests [--all] [PATHS AND OPTIONS OF PYTEST]`
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import IO

from tests import durations, groups, machine

# On two cores: most of what a test does is waiting for another program.
PROCESSES = "4"
TESTS_FAILED = 1


def main(words: Sequence[str]) -> int:
    everything = "--all" in words
    given = [word for word in words if word != "--all"]
    machine.main()
    before = groups.hashes() if everything else {}
    with tempfile.TemporaryFile("w+") as said:
        lint = start_lint(said)
        tests = run_tests(given, everything=everything)
        linted = lint.wait()
        if linted:
            said.seek(0)
            print(f"make lint ended with {linted}:\n{said.read()}", flush=True)
    if tests or linted:
        return tests or TESTS_FAILED
    return keep(before) if everything and not given else 0


def start_lint(said: IO[str]) -> "subprocess.Popen[str]":
    """Beside the tests, which wait half of the time."""
    command = ["make", "--no-print-directory", "lint"]
    return subprocess.Popen(command, cwd=groups.ROOT, stdout=said, stderr=said, text=True)


def run_tests(given: Sequence[str], *, everything: bool) -> int:
    command = [sys.executable, "-m", "pytest", "-n", os.environ.get("PROCESSES", PROCESSES)]
    command += ["--dist", "loadscope", "--no-loadscope-reorder", "--tell-durations"]
    if not everything:
        command += ["--changed"]
    elif os.geteuid() == 0:
        # Beside somebody else's Docker Engine, of which all has to be as it was.
        command = [sys.executable, "-m", "tests.untouched", *command]
    # They start hundreds of processes of Python: compiling all of it anew takes as long as they.
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    # Short, as sockets lie in it, whose path the kernel takes only up to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        # For those that tests start: nothing of it stays.
        environment["PYTEST_DEBUG_TEMPROOT"] = folder
        command += [f"--basetemp={folder}/t", *given]
        done = subprocess.run(command, cwd=groups.ROOT, env=environment, check=False)
    return done.returncode


def keep(before: dict[str, str]) -> int:
    """What all of this proved; unless tests were left out, or somebody changed it meanwhile."""
    if left_out := {"ALLOW_MISSING", "PYTEST_ADDOPTS"} & set(os.environ):
        print(f"{', '.join(left_out)} may leave tests out: tests/proved.json stays as it was.")
        return 0
    if groups.hashes() != before:
        print("Files changed while the tests ran: tests/proved.json stays as it was.")
        return TESTS_FAILED
    groups.write(before)
    durations.keep()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
