import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal import ROOT


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    command = [sys.executable, "-m", "inferdash.service.bundle", "--python", "3.13"]
    done = subprocess.run(
        [*command, "--to", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = folder.iterdir()
    return made
