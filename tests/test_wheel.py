"""make wheel: what it builds holds all that pages and starts need."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.ports import free_port
from tests.terminal import ROOT, TerminalProgram
from tests.waiting import PATIENCE


@pytest.mark.release
@pytest.mark.takes(60)
def test_the_wheel_runs_where_nothing_else_of_the_checkout_is(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = tmp_path.glob("inferdash-*-py3-none-any.whl")
    place = tmp_path / "venv"
    venv.create(place, with_pip=False)
    own = next((place / "lib").glob("python3*")) / "site-packages"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", place / "bin/python", "install", "--quiet",
         "--no-deps", "--no-index", "--disable-pip-version-check", wheel],
        check=True,
    )  # fmt: skip
    # Its dependencies are those that the tests run with: none of them is in the wheel.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    port = free_port()
    variables = {
        "INFERDASH_DATA": str(tmp_path / "data"),
        "PORT": str(port),
        "DOCKER_HOST": f"unix://{tmp_path}/none.sock",
        "INFERDASH_HUB": "off",
        "REDIS_URL": "",
        "DATABASE_URL": "",
        "PYTHONPATH": "",
        "NO_COLOR": "1",
    }
    up = TerminalProgram([str(place / "bin/inferdash-server")], variables)
    try:
        up.waits_for("opens this link")
        base = f"http://127.0.0.1:{port}"
        for path in ("/login/", "/static/css/page/app.css", "/static/vendor/htmx/htmx.min.js"):
            with urlopen(base + path, timeout=PATIENCE) as answer:  # noqa: S310 - our own
                assert answer.status == 200, path
    finally:
        up.press_ctrl_c()
        up.ends()
        print(up.said)
    code = (
        "import inferdash, servers.launch.recipes.catalogue as c; print(inferdash.__file__);"
        "print(len(c.catalogue().recipes))"
    )
    told = subprocess.run(
        [place / "bin/python", "-c", code],
        env=os.environ | {"PYTHONPATH": ""},
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    assert told[0].startswith(str(place)), "it ran from the checkout"
    assert int(told[1]) > 20
