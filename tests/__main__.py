"""`make test`: lint and every test that the change can break. `--all`: every test that there is.

`python -m tests [--all] [PATHS AND OPTIONS OF PYTEST]`
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from tests import compiled, durations, groups, machine, namespace

# On two cores: most of what a test does is waiting for another program.
PROCESSES = "4"
TESTS_FAILED = 1


def main(words: Sequence[str]) -> int:
    everything = "--all" in words
    given = [word for word in words if word != "--all"]
    machine.main()
    before = groups.hashes() if everything else {}
    with tempfile.TemporaryFile("w+") as said, tempfile.NamedTemporaryFile("r") as outcome:
        lint = start_lint(said)
        tests = run_tests(given, everything=everything, outcome=outcome.name)
        linted = lint.wait()
        if linted:
            said.seek(0)
            print(f"make lint ended with {linted}:\n{said.read()}", flush=True)
        proved = set(json.loads(outcome.read() or "[]"))
    if everything and not given and not linted and tests in (0, TESTS_FAILED):
        keep(before, proved, is_green=not tests)
    return tests or (TESTS_FAILED if linted else 0)


def start_lint(said: IO[str]) -> "subprocess.Popen[str]":
    """Beside the tests, which wait half of the time."""
    command = ["make", "--no-print-directory", "lint"]
    known = {"MYPY_CACHE_DIR": str(find_mypy_cache(groups.ROOT))}
    return subprocess.Popen(
        command, cwd=groups.ROOT, env=known | os.environ, stdout=said, stderr=said, text=True
    )


def find_mypy_cache(root: Path) -> Path:
    """Outlives the checkout. Each path has its own: two runs that share one break it for both.

    So has each set of models: the plugin of django-stubs keeps the modules of models that it knew,
    and mypy reports those that are gone.
    """
    path = str(root.resolve()).strip("/").replace("/", "-")
    models = sorted(str(each.relative_to(root)) for each in root.glob("servers/models/**/*.py"))
    digest = hashlib.sha256("\n".join(models).encode()).hexdigest()
    return namespace.FOLDER / "mypy" / f"{path}-{digest[:12]}"


def run_tests(given: Sequence[str], *, everything: bool, outcome: str) -> int:
    command = [sys.executable, "-m", "pytest", "-n", os.environ.get("PROCESSES", PROCESSES)]
    command += ["--dist", "loadscope", "--no-loadscope-reorder", "--tell-durations"]
    if not everything:
        command += ["--changed"]
    elif os.geteuid() == 0:
        # Beside somebody else's Docker Engine, of which all has to be as it was.
        command = [sys.executable, "-m", "tests.untouched", *command]
    # They start hundreds of processes of Python: compiling all of it anew takes as long as they.
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    compiled.main()
    environment[groups.OUTCOME] = outcome
    # Short, as sockets lie in it, whose path the kernel takes only up to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        # For those that tests start: nothing of it stays.
        environment["PYTEST_DEBUG_TEMPROOT"] = folder
        command += [f"--basetemp={folder}/t", *given]
        done = subprocess.run(command, cwd=groups.ROOT, env=environment, check=False)
    return done.returncode


def keep(before: dict[str, str], proved: set[str], *, is_green: bool) -> None:
    """What this run proved; nothing where tests may have been left out."""
    if left_out := {"ALLOW_MISSING", "PYTEST_ADDOPTS"} & set(os.environ):
        print(f"{', '.join(left_out)} may leave tests out: tests/proved.json stays as it was.")
        return
    if unproved := groups.keep(before, proved):
        print(f"Not proved, and so part of make test: {', '.join(sorted(unproved))}.")
    if is_green:
        durations.keep()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
