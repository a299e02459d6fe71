"""A run of pytest of its own, in a folder with tests of its own: for what the tests' plugins do."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run_pytest(
    folder: Path, plugins: tuple[str, ...], *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """With these plugins of ours and xdist: to load all that are installed takes seconds."""
    loaded = " ".join(f"-p {plugin}" for plugin in ("xdist.plugin", *plugins))
    (folder / "pytest.ini").write_text(
        f"[pytest]\npythonpath = {ROOT}\naddopts = {loaded}\nmarkers =\n    docker: -\n"
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        | environment,
        capture_output=True,
        text=True,
        check=False,
    )
