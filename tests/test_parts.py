import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
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


def run(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_sample.py").write_text(PROGRAM)
    (folder / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\naddopts = -p tests.parts\nmarkers =\n    docker: -\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:django", "-p", "no:cacheprovider"]
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_was_not_run_is_named_and_fails(tmp_path: Path) -> None:
    result = run(tmp_path, PATH="/nonexistent")

    assert result.returncode == 1
    listed = result.stdout.partition("NOT RUN")[2]
    assert "test_sample.py::test_with_an_engine: docker: " in listed
    assert "test_sample.py::test_that_skips_itself: no reason worth having" in listed
    assert "test_that_passes" not in listed


def test_allow_missing_passes_and_still_names_them(tmp_path: Path) -> None:
    result = run(tmp_path, ALLOW_MISSING="1")

    assert result.returncode == 0
    assert "test_that_skips_itself" in result.stdout.partition("NOT RUN")[2]
