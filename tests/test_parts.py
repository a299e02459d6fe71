import subprocess
from pathlib import Path

import pytest

from tests.nested import run_pytest

TESTS = """
import pytest

pytestmark = []

@pytest.mark.docker
def test_with_an_engine():
    pass

def test_that_skips_itself():
    pytest.skip("no reason worth having")

def test_that_passes():
    pass
"""

MODULE = 'import pytest\npytest.skip("none of it", allow_module_level=True)\n'


def run(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_sample.py").write_text(TESTS)
    return run_pytest(folder, ("tests.parts",), "-q", *options, **environment)


@pytest.mark.parametrize("processes", [0, 2])
def test_what_was_not_run_is_named_and_fails(tmp_path: Path, processes: int) -> None:
    (tmp_path / "test_module.py").write_text(MODULE)
    result = run(tmp_path, "-n", str(processes), PATH="/nonexistent")

    assert result.returncode == 1
    listed = result.stdout.partition("NOT RUN")[2]
    assert "test_sample.py::test_with_an_engine: docker: " in listed
    assert "test_sample.py::test_that_skips_itself: no reason worth having" in listed
    assert "test_module.py: the whole module" in listed
    assert "test_that_passes" not in listed


def test_allow_missing_passes_and_still_names_them(tmp_path: Path) -> None:
    result = run(tmp_path, ALLOW_MISSING="1")

    assert result.returncode == 0
    assert "test_that_skips_itself" in result.stdout.partition("NOT RUN")[2]


def test_a_failure_is_told_before_the_end(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(
        "import os\n\ndef test_wrong():\n    os.system('echo its engine ended >&2')\n    assert 1 == 2, 'no'\n"
    )

    before, _title, _after = run(tmp_path, "-n", "1").stdout.partition("= FAILURES =")

    assert "test_failing.py::test_wrong failed (call):" in before
    assert "assert 1 == 2" in before
    assert "Captured stderr call, at its end:\nits engine ended" in before
