"""What the front end reckons without a page: tests/js, run by Node.js itself."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from inferdash.up import install

FILES = sorted((install.ROOT / "tests/js").glob("*.test.js"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".test.js"))
def test_the_front_end_reckons_right(file: Path) -> None:
    environment = install.environment() | {"NO_COLOR": "1", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    node = shutil.which("node", path=environment["PATH"])
    assert node, "make test installs Node.js; there is none here"
    done = subprocess.run(
        [node, "--test", "--test-reporter=spec", str(file)],
        cwd=install.ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    said = re.search(r"^. pass (\d+)$", done.stdout, re.MULTILINE)
    assert said, done.stdout
    assert int(said[1]) > 0, done.stdout
