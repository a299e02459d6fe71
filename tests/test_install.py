"""The installer beside its own small checkout, with programs that write down how they are called."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.up

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    up = folder / "inferdash/up"
    up.mkdir(parents=True)
    shutil.copy(ROOT / "inferdash/__init__.py", folder / "inferdash")
    for name in ("__init__.py", "install.py", "up.sh", "node-requirements.txt"):
        shutil.copy(ROOT / "inferdash/up" / name, up)
    for name in ("requirements.txt", "requirements-dev.txt"):
        (folder / name).write_text("# nothing is needed\n")
    (folder / "package.json").write_text('{"name": "sample", "private": true}\n')
    (folder / "package-lock.json").write_text(
        '{"name": "sample", "lockfileVersion": 3, "requires": true, "packages": {"": {}}}\n'
    )
    program(tmp_path / "bin/npm", 'test "$1" = --version && echo 10.9.0 || mkdir -p node_modules')
    program(tmp_path / "bin/uv", 'echo "pyenv: uv: command not found" >&2; exit 127')
    return folder


def program(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'#!/bin/sh\necho "$0 $*" >> "{path.parent.parent}/calls"\n{script}\n')
    path.chmod(0o755)


def install(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    python = Path(sys.executable).resolve().parent
    return subprocess.run(
        ["sh", "inferdash/up/up.sh", *arguments],
        cwd=checkout,
        env={
            "PATH": f"{checkout.parent / 'bin'}:{python}:/usr/bin:/bin",
            "HOME": os.environ.get("HOME", "/"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def calls(checkout: Path) -> list[str]:
    text = (checkout.parent / "calls").read_text()
    return [line.rpartition("/")[2] for line in text.splitlines()]


@pytest.mark.takes(30)
def test_the_second_time_there_is_nothing_to_do(checkout: Path) -> None:
    first = install(checkout, "--only")
    assert first.returncode == 0, first.stderr
    assert "making .venv" in first.stdout
    assert "npm ci --ignore-scripts --no-audit --no-fund --omit=dev" in calls(checkout)
    made = calls(checkout)

    second = install(checkout, "--only")

    assert second.returncode == 0
    assert second.stdout == ""
    assert calls(checkout) == made


@pytest.mark.takes(60)
def test_a_changed_lock_file_is_installed(checkout: Path) -> None:
    install(checkout, "--only")
    (checkout / "requirements.txt").write_text("# changed\n")
    (checkout / "package-lock.json").write_text("{}\n")

    again = install(checkout, "--only")

    assert "installing the packages of requirements.txt" in again.stdout
    assert "installing the front end's packages" in again.stdout


@pytest.mark.takes(30)
def test_make_up_leaves_what_the_tests_installed(checkout: Path) -> None:
    install(checkout, "--dev")
    assert "npm ci --ignore-scripts --no-audit --no-fund" in calls(checkout)

    assert install(checkout, "--only").stdout == ""


@pytest.mark.takes(60)
def test_a_venv_whose_python_is_gone_is_made_again(checkout: Path) -> None:
    install(checkout, "--only")
    python = checkout / ".venv/bin/python"
    python.unlink()
    python.symlink_to("/nonexistent/python3.12")

    again = install(checkout, "--only")

    assert again.returncode == 0
    assert "making .venv" in again.stdout
    assert subprocess.run([python, "-c", ""], check=False).returncode == 0


def test_what_npm_says_is_shown_when_it_fails(checkout: Path) -> None:
    program(
        checkout.parent / "bin/npm",
        'test "$1" = --version && echo 10.9.0 || { echo no such host; exit 4; }',
    )

    result = install(checkout, "--only")

    assert result.returncode == 1
    assert "(exit code 4); it said:\nno such host" in result.stderr
    assert "Traceback" not in result.stderr


def _start_with_old_python(checkout: Path, system: str) -> subprocess.CompletedProcess[str]:
    """make demo on a machine whose every python3 is 3.9, of this /etc/os-release."""
    for name in ("python3", "python3.12", "python3.13", "python3.14"):
        program(
            checkout.parent / "bin" / name, 'test "$1" = --version && echo Python 3.9.2; exit 1'
        )
    (checkout.parent / "os-release").write_text(system)
    return subprocess.run(
        ["sh", "inferdash/up/up.sh", "--only"],
        cwd=checkout,
        env={
            "PATH": f"{checkout.parent / 'bin'}:/usr/bin:/bin",
            "HOME": "/nonexistent",
            "OS_RELEASE": str(checkout.parent / "os-release"),
            "INFERDASH_COMMAND": "make demo",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_old_python_is_told_what_to_install(checkout: Path) -> None:
    result = _start_with_old_python(checkout, 'ID=debian\nVERSION_ID="13"\n')

    assert result.returncode == 1
    assert "needs Python 3.12 or newer, and this machine has Python 3.9.2" in result.stderr
    assert "sudo apt install python3" in result.stderr


def test_ubuntu_22_is_told_the_two_commands_that_bring_python(checkout: Path) -> None:
    result = _start_with_old_python(checkout, 'ID=ubuntu\nVERSION_ID="22.04"\n')

    assert result.returncode == 1
    commands = [line.strip() for line in result.stderr.splitlines() if line.startswith("    ")]
    assert commands == [
        "curl -LsSf https://astral.sh/uv/install.sh | sh",
        'PATH="$HOME/.local/bin:$PATH" make demo',
    ]


def test_where_uv_is_its_python_is_used(checkout: Path) -> None:
    program(
        checkout.parent / "bin/uv",
        f'test "$2" = find && test -e {checkout}/had && echo {checkout.parent}/bin/theirs && exit 0\n'
        f'test "$2" = install && touch {checkout}/had && exit 0\nexit 1',
    )
    program(checkout.parent / "bin/theirs", 'echo "uv\'s Python: $*"')

    result = _start_with_old_python(checkout, 'ID=ubuntu\nVERSION_ID="22.04"\n')

    assert (result.returncode, result.stdout) == (
        0,
        "uv's Python: -m inferdash.up.install --only\n",
    ), result.stderr
