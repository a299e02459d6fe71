import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.fresh
@pytest.mark.takes(330)
def test_an_ordinary_user_brings_a_bare_machine_up() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tests.fresh"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert result.returncode == 0, result.stdout + result.stderr
